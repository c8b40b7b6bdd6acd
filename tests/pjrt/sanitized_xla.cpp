#include "sanitized_xla.h"  // part of every program here that may load the real plugin
