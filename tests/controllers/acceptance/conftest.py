from controllers.running import cleared_client

__all__ = ["cleared_client"]
