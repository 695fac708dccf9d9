"""Runs the evaluation: ``python -m benchmarks.eval --offline``."""

from benchmarks.eval.run import main

main()
