"""LESSONS: every lesson by its name, in the order in which they are taught."""

from __future__ import annotations

from regard.lessons.captions import Captions
from regard.lessons.context import Context
from regard.lessons.cost import Cost
from regard.lessons.families import Families
from regard.lessons.feed_forward import FeedForwardLesson
from regard.lessons.growth import Growth
from regard.lessons.heads import Heads
from regard.lessons.lesson import Lesson
from regard.lessons.masking import Masking
from regard.lessons.meaning import Meaning
from regard.lessons.norms import Norms
from regard.lessons.order import Order
from regard.lessons.overfitting import Overfitting
from regard.lessons.patches import PatchesOfAnImage
from regard.lessons.positions import Positions
from regard.lessons.pretraining import Pretraining
from regard.lessons.projections import Projections
from regard.lessons.recurrence import Recurrence
from regard.lessons.residuals import Residuals
from regard.lessons.scaling import Scaling
from regard.lessons.similarity import Similarity
from regard.lessons.six_steps import SixSteps
from regard.lessons.temperature import Temperature
from regard.registry import Registry

ALL = (
    SixSteps, Scaling, Masking, Order, Positions, Similarity, Projections, Heads, FeedForwardLesson,
    Residuals, Norms, Recurrence, Families, Temperature, Pretraining, Overfitting, Growth, Context, Cost,
    Meaning, PatchesOfAnImage, Captions,
)  # fmt: skip

LESSONS: Registry[type[Lesson]] = Registry("lesson", {lesson.name: lesson for lesson in ALL})
