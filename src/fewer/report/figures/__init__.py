"""The figures of a report, each made of panels; what cannot be drawn from a log gives no figure."""
