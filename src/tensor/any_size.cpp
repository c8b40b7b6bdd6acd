#include "tensor/any_size.h"

namespace systole::recording {

namespace {
thread_local bool any_size = false;
}

AnySizeScope::AnySizeScope(bool on) : previous_(any_size) { any_size = on; }
AnySizeScope::~AnySizeScope() { any_size = previous_; }
bool AnySizeScope::is_on() { return any_size; }

}  // namespace systole::recording
