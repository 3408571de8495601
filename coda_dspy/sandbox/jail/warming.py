"""Use sympy once before the first fork, so that no child pays for what it sets up at first use.

Our own lines, before any program is there. Half of the time of a small sympy program is this.
"""


def use_sympy() -> None:
    """Touch the parts that programs for maths problems use most."""
    import sympy

    x, y = sympy.symbols("x y")
    sympy.integrate(x**2 * sympy.sin(x), (x, 0, 1))
    sympy.solve([x + y - 3, x * y - 2], [x, y])
    sympy.solve(x**3 - 6 * x**2 + 11 * x - 6, x)
    sympy.simplify(sympy.sin(x) ** 2 + sympy.cos(x) ** 2)
    sympy.factor(sympy.expand((x + 1) ** 3))
    sympy.latex(sympy.sympify("sqrt(2)/2 + 1/3").evalf(30))
    sympy.factorint(360)
    str(sympy.Matrix([[1, 2], [3, 4]]).det())


STEPS = {"sympy": use_sympy}
"""What to do after a module has been loaded. A module of our own may bring its step as `warm_up`."""
