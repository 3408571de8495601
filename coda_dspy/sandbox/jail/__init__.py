"""What runs inside the sandbox: the worker, its walls, and the three ways to run a program behind them.

Standard library only, and only relative imports: `worker.py` loads this package by path with `python -I -S`, where
nothing of the project can be imported.
"""
