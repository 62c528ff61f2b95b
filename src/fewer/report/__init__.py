"""Reports from run logs: Markdown, one HTML page, figures and tables.

Every number comes from the rows of a log. Not covered: choosing what is worth reporting, and comparing runs whose items
differ.
"""

from fewer.report.published import PUBLISHED, Published
from fewer.report.write import FORMATS, write_report

__all__ = ["FORMATS", "PUBLISHED", "Published", "write_report"]
