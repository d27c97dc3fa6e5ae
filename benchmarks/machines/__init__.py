"""How fast are pods placed on nodes?"""
