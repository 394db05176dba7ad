"""The Flask application without any protection."""

from benchmarks.peer_apps.flask_app import make_app

app = make_app()
