#include "tensor/frame.h"

#include <algorithm>
#include <atomic>

#include <fmt/format.h>

#include "tensor/cut.h"
#include "tensor/evaluate.h"
#include "tensor/record.h"
#include "tensor/thread_state.h"

namespace systole::recording {

namespace {

std::uint32_t new_id() {
  static std::atomic<std::uint32_t> last{0};
  std::uint32_t id = ++last;
  return id != 0 ? id : ++last;  // 0 means no trace
}

}  // namespace

Frame::Frame(Variables variables, Purpose purpose)
    : id_(new_id()),
      parent_(thread_state().frame),
      variables_(variables),
      compile_id_(parent_ != nullptr && parent_->compile_id_ != 0 ? parent_->compile_id_
                  : purpose == Purpose::compile                   ? id_
                                                                  : 0) {
  thread_state().frame = this;
}

Frame::~Frame() { leave(); }

void Frame::leave() {
  if (!active_) return;
  active_ = false;
  thread_state().frame = parent_;
}

bool Frame::contains(std::uint32_t trace) const {
  for (const Frame* frame = this; frame != nullptr; frame = frame->parent_)
    if (frame->id_ == trace) return true;
  return false;
}

Tensor Frame::placeholder(const Type& type) {
  RecordRef record = new_record(Kind::placeholder, type);
  record->trace = id_;  // an inner frame may be the one that reads a Variable first
  Tensor tensor(std::move(record));
  placeholders_.push_back(tensor);
  return tensor;
}

void Frame::bind(const CellRef& cell) {
  if (find(cell) != nullptr) return;
  const Tensor input = placeholder(cell->type);
  index_.emplace(cell.get(), bindings_.size());
  bindings_.push_back({cell, input, input, false});
}

Frame::Binding* Frame::find(const CellRef& cell) {
  const auto found = index_.find(cell.get());
  return found == index_.end() ? nullptr : &bindings_[found->second];
}

Tensor Frame::read(const CellRef& cell) {
  if (Binding* binding = find(cell)) return binding->current;
  if (variables_ == Variables::capture) return parent_ != nullptr ? parent_->read(cell) : cell->value;
  bind(cell);
  return find(cell)->current;
}

Tensor Frame::known(const CellRef& cell) {
  if (Binding* binding = find(cell)) return binding->current;
  if (variables_ == Variables::bind) return {};
  return parent_ != nullptr ? parent_->known(cell) : cell->value;
}

void Frame::assign(const CellRef& cell, const Tensor& value) {
  if (variables_ == Variables::bind) bind(cell);
  Binding* binding = find(cell);
  if (binding == nullptr) {
    index_.emplace(cell.get(), bindings_.size());
    binding = &bindings_.emplace_back(Binding{cell, {}, {}, false});
  }
  binding->current = value;
  binding->assigned = true;
}

void Frame::note(const std::shared_ptr<SettingCell>& cell) {
  const auto known = [&](const auto& setting) { return setting.first == cell; };
  if (std::none_of(settings_.begin(), settings_.end(), known)) settings_.emplace_back(cell, cell->value);
  if (parent_ != nullptr) parent_->note(cell);
}

Frame::Cut Frame::cut(std::span<const Tensor> outputs) const {
  Cut result;
  std::vector<Type> inputs;
  std::vector<CutNode> nodes;
  std::vector<CutOutput> positions;
  {
    std::lock_guard lock(record_mutex());
    const auto leaf = [&](const Record& record) { return record.trace != id_ || !record.pending(); };
    const std::vector<Record*> order = walk(outputs, leaf);
    std::vector<std::int32_t> input(order.size(), -1);
    const std::uint64_t visit = order.empty() ? 0 : order[0]->visit;
    for (const Tensor& placeholder : placeholders_) {
      const Record& record = *placeholder.record();
      if (!order.empty() && record.visit == visit)
        input[static_cast<std::size_t>(record.position)] = static_cast<std::int32_t>(inputs.size());
      inputs.push_back(record.type);
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      Record& record = *order[i];
      const Kind kind = record.kind.load(std::memory_order_relaxed);
      const bool number = kind == Kind::host && record.trace != 0 && record.trace == compile_id_;
      if (!leaf(record) || kind == Kind::constant || number || input[i] >= 0) continue;
      if (kind == Kind::failed) std::rethrow_exception(record.extra->error);
      input[i] = static_cast<std::int32_t>(inputs.size());
      inputs.push_back(record.type);
      retain(&record);
      result.captures.push_back(Tensor(RecordRef(&record)));
    }
    for (const Tensor& output : outputs) positions.push_back({output.record()->position});
    nodes = cut_nodes(order, input, {});
  }
  result.graph = build_graph(nodes, inputs, positions);
  return result;
}

bool tracing() { return thread_state().frame != nullptr; }

std::int64_t read_setting(const std::shared_ptr<SettingCell>& cell) {
  if (Frame* frame = thread_state().frame) frame->note(cell);
  return cell->value;
}

Tensor read_variable(const CellRef& cell) {
  Frame* frame = thread_state().frame;
  return frame != nullptr ? frame->read(cell) : cell->value;
}

Tensor known_value(const CellRef& cell) {
  Frame* frame = thread_state().frame;
  return frame != nullptr ? frame->known(cell) : cell->value;
}

void assign_variable(const CellRef& cell, const Tensor& value) {
  Frame* frame = thread_state().frame;
  if (frame != nullptr)
    frame->assign(cell, value);
  else
    cell->value = value;
}

}  // namespace systole::recording
