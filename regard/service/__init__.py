"""Regard over HTTP: the studio's page and what it asks for."""
