"""LESSONS: every lesson by its name; `LESSONS["mine"] = Mine` adds one."""

from __future__ import annotations

from regard.lessons.lesson import Lesson
from regard.lessons.masking import Masking
from regard.lessons.norms import Norms
from regard.lessons.order import Order
from regard.lessons.positions import Positions
from regard.lessons.projections import Projections
from regard.lessons.residuals import Residuals
from regard.lessons.scaling import Scaling
from regard.lessons.similarity import Similarity
from regard.lessons.six_steps import SixSteps
from regard.registry import Registry

ALL = (SixSteps, Scaling, Masking, Order, Positions, Similarity, Projections, Residuals, Norms)

LESSONS: Registry[type[Lesson]] = Registry("lesson", {lesson.name: lesson for lesson in ALL})
