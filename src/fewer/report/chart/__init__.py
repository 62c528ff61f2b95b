"""Charts as plain shapes: laid out once, painted as SVG for the page and by matplotlib for the files.

Not covered: three dimensions, pies, second axes, and anything that needs a legend to be read.
"""
