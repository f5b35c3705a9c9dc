"""The job of the kill test: a row in PostgreSQL with the recipe, and a row for every time its code began."""

from __future__ import annotations

import os
import threading
import time

import psycopg
from pydantic import BaseModel

from tickwork.worker import App, Context
from tickwork.worker.context import StopJob
from tickwork.worker.fencing import postgres_once

app = App()
_local = threading.local()


class Booking(BaseModel):
    """How long the job works before its effect, and after it: a kill then leaves a done run to be done again."""

    before_s: float = 0.0
    after_s: float = 0.0


def connection() -> psycopg.Connection:
    """One for each job thread."""
    if getattr(_local, "connection", None) is None:
        _local.connection = psycopg.connect(os.environ["KILL_DSN"])
    made: psycopg.Connection = _local.connection
    return made


@app.job("book")
def book(ctx: Context, booking: Booking) -> None:
    db = connection()
    with db.transaction():
        db.execute("INSERT INTO begun VALUES (%s, %s, %s, %s)", (ctx.run_id, ctx.attempt, ctx.token, os.getpid()))
    time.sleep(booking.before_s)
    with db.transaction(), db.cursor() as cursor:
        if postgres_once(cursor, ctx):
            cursor.execute("INSERT INTO booked VALUES (%s, %s)", (ctx.run_id, ctx.token))
        else:
            cursor.execute("INSERT INTO spared VALUES (%s, %s)", (ctx.run_id, ctx.token))
    time.sleep(booking.after_s)


@app.job("long")
def long(ctx: Context, booking: Booking) -> None:
    """Works in small steps and never asks whether it has to stop; writes how it ended."""
    ended = "finished"
    db = connection()
    with db.transaction():
        db.execute("INSERT INTO begun VALUES (%s, %s, %s, %s)", (ctx.run_id, ctx.attempt, ctx.token, os.getpid()))
    try:
        until_s = time.monotonic() + booking.before_s
        while time.monotonic() < until_s:
            time.sleep(0.05)
    except StopJob as signal:
        ended = type(signal).__name__
        raise
    finally:
        with db.transaction():
            db.execute("INSERT INTO ended VALUES (%s, %s, %s)", (ctx.run_id, ctx.attempt, ended))


@app.job("steps")
def steps(ctx: Context, booking: Booking) -> None:
    """Works in small steps, and stops when it is told to."""
    db = connection()
    with db.transaction():
        db.execute("INSERT INTO begun VALUES (%s, %s, %s, %s)", (ctx.run_id, ctx.attempt, ctx.token, os.getpid()))
    until_s = time.monotonic() + booking.before_s
    while time.monotonic() < until_s:
        time.sleep(0.05)
        ctx.check()
    _book_once(ctx)


@app.job("deaf")
def deaf(ctx: Context, booking: Booking) -> None:
    """Is in C code all the time, where no signal arrives."""
    time.sleep(booking.before_s)
    _book_once(ctx)


def _book_once(ctx: Context) -> None:
    with connection().transaction(), connection().cursor() as cursor:
        if postgres_once(cursor, ctx):
            cursor.execute("INSERT INTO booked VALUES (%s, %s)", (ctx.run_id, ctx.token))
