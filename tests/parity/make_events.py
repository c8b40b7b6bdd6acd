#!/usr/bin/env python3
"""The event file of tensorboard_test.cpp, written by the tensorboard package.

  python3 tests/parity/make_events.py       # needs numpy and tensorboard 2; writes ../data/events/

Scalars in the three forms that are found in logs: simple_value (PyTorch's), tensors with float_val and with
tensor_content (TensorFlow 2's), the plugin named with a tag's first value only; a text and an image between them.
"""
import glob
import os

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.scalar import metadata as scalar_metadata
from tensorboard.plugins.text import metadata as text_metadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "events")
for old in glob.glob(os.path.join(FOLDER, "*tfevents*")):
    os.remove(old)
writer = EventFileWriter(FOLDER)


def write(step, value):
    writer.add_event(Event(wall_time=1700000000.5 + step, step=step, summary=Summary(value=[value])))


for step in (0, 1, 300, 2):
    write(step, Summary.Value(tag="loss", simple_value=1 / (step + 1)))
for step in range(3):
    meta = scalar_metadata.create_summary_metadata("", "") if step == 0 else None
    number = np.float32(step * 0.25)
    tensor = (TensorProto(dtype="DT_FLOAT", tensor_shape=TensorShapeProto(), float_val=[number]) if step % 2 else
              TensorProto(dtype="DT_FLOAT", tensor_shape=TensorShapeProto(), tensor_content=number.tobytes()))
    write(step, Summary.Value(tag="accuracy", metadata=meta, tensor=tensor))
write(0, Summary.Value(tag="note", metadata=text_metadata.create_summary_metadata("", ""),
                       tensor=TensorProto(dtype="DT_STRING", string_val=[b"hello"])))
write(-5, Summary.Value(tag="before", simple_value=float("nan")))
writer.close()
os.rename(glob.glob(os.path.join(FOLDER, "*tfevents*"))[0], os.path.join(FOLDER, "events.out.tfevents.1700000000.fixture"))
