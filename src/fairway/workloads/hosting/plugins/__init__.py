"""The plugins of the profile ``hosting``, one file each. They read a ``HostingSpec`` and the ``HostingState``."""
