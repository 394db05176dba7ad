"""The Flask application of the WSGI rows, bare; Flask and nothing else."""

import threading

from flask import Flask, Response, jsonify, request

released = threading.Event()


def make_app() -> Flask:
    """Return the application."""
    app = Flask(__name__)

    @app.post("/payments")
    def pay() -> tuple[Response, int]:
        payment = request.get_json()
        if "x-hold" in request.headers:
            released.wait()
        return jsonify(status="charged", id=payment["id"]), 201

    @app.get("/ready")
    def ready() -> str:
        return ""

    @app.get("/release")
    def release() -> str:
        released.set()
        return ""

    return app
