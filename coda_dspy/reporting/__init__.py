"""Reports that one looks at: one self-contained HTML file a run, and the plots that experiments share with it."""

from .report import write_report

__all__ = ["write_report"]
