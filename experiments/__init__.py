"""The paper's tables as runnable specs, benchmarks and plots."""
