"""LESSONS: every lesson by its name; `LESSONS["mine"] = Mine` adds one."""

from __future__ import annotations

from regard.lessons.lesson import Lesson
from regard.lessons.masking import Masking
from regard.lessons.order import Order
from regard.lessons.scaling import Scaling
from regard.lessons.six_steps import SixSteps
from regard.registry import Registry

LESSONS: Registry[type[Lesson]] = Registry(
    "lesson", {lesson.name: lesson for lesson in (SixSteps, Scaling, Masking, Order)}
)
