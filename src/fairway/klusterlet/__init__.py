"""What a managed cluster does for itself: registers on a hub, stays in touch, and applies the works it is given.

A stand-in for OCM's klusterlet, so that hub and clusters can be tried on one machine; a fleet under OCM has the
real one and needs nothing of this.
"""
