"""`fairway test`: unit tests of placements, for the repositories of those who write them.

``files`` reads test files, ``run`` decides and compares, and ``junit`` writes the report that CI systems show.
"""
