// The language of layers. A line is a keyword, what must follow it, and words in any order; each layer is
// made for the shape that comes in, and tried on a stand-in to learn the shape that goes out, so that shapes
// follow one rule only: that of the layers themselves.

#include "systole/nn/layers_model.h"

#include <cctype>
#include <utility>

#include "base/nearest.h"
#include "nn/last_output.h"
#include "nn/layer_line.h"
#include "nn/named.h"
#include "systole/nn/convolution.h"
#include "systole/nn/layers.h"
#include "systole/nn/normalization.h"
#include "systole/nn/recurrent.h"
#include "systole/nn/summary.h"
#include "systole/tensor/neural.h"

namespace systole::nn {

Tensor Chain::forward(const Tensor& x) const {
  Tensor y = x;
  for (const AnyModule& module : modules_) y = module(y);
  return observed(*this, y);
}

namespace {

// An activation as a line of its own.
struct Activation {
  ActivationFunction function;
  Tensor forward(const Tensor& x) const { return observed(*this, function(x)); }
  template <class V>
  static void visit(Activation&, V&&) {}
};

// A layer and the activation at the end of its line; only the layer is seen from outside.
struct Activated {
  AnyModule layer;
  ActivationFunction function;
  Tensor forward(const Tensor& x) const { return function(layer(x)); }
  void walk(const std::string& path, int depth, Inventory& out) { layer.walk(path, depth, out); }
};

struct Reshape {
  Ints sizes;  // of one example
  Tensor forward(const Tensor& x) const {
    Shape shape{x.shape()[0]};
    for (const std::int64_t size : sizes) shape.push_back(size);
    return observed(*this, x.reshape(shape));
  }
  template <class V>
  static void visit(Reshape&, V&&) {}
};

template <class Layer>
struct Recurrent {
  Layer layer;
  bool bidirectional, last;
  Tensor forward(const Tensor& x) const {
    const auto out = layer(x);
    if (!last) return out.y;
    if constexpr (requires { out.state.h; })
      return last_output(out.y, out.state.h, bidirectional);
    else
      return last_output(out.y, out.h, bidirectional);
  }
  void walk(const std::string& path, int depth, Inventory& out) { detail::walk(layer, path, depth, out); }
};

AnyModule finished(const Line& line, AnyModule layer) {
  if (!line.activation()) return layer;
  return Activated{std::move(layer), line.activation()};
}

// Of an image 2, of a sequence 1.
int spatial_axes(const Line& line) {
  line.axes(2, 3, "an image [height, width, channels] or a sequence [length, channels]");
  return line.shape().rank() - 1;
}

AnyModule conv(Line& line) {
  const int axes = spatial_axes(line);
  const std::int64_t out = line.integer("the number of channels");
  Conv2dOptions options{.kernel = line.window("the window", axes)};
  line.options({{"stride", [&] { options.stride = line.window("the stride", axes); }},
                {"pad", [&] { options.padding = line.padding(axes); }},
                {"dilation", [&] { options.dilation = line.window("the dilation", axes); }},
                {"groups", [&] { options.groups = line.integer("the number of groups"); }},
                {"nobias", [&] { options.bias = false; }}},
               true);
  if (axes == 1) return finished(line, Conv1d(line.channels(), out, options));
  return finished(line, Conv2d(line.channels(), out, options));
}

AnyModule depthwise(Line& line) {
  line.axes(3, 3, "an image [height, width, channels]");
  DepthwiseConv2dOptions options{.kernel = line.window("the window", 2)};
  line.options({{"multiplier", [&] { options.multiplier = line.integer("the multiplier"); }},
                {"stride", [&] { options.stride = line.window("the stride", 2); }},
                {"pad", [&] { options.padding = line.padding(2); }},
                {"dilation", [&] { options.dilation = line.window("the dilation", 2); }},
                {"nobias", [&] { options.bias = false; }}},
               true);
  return finished(line, DepthwiseConv2d(line.channels(), options));
}

AnyModule convtranspose(Line& line) {
  const int axes = spatial_axes(line);
  const std::int64_t out = line.integer("the number of channels");
  ConvTranspose2dOptions options{.kernel = line.window("the window", axes)};
  line.options({{"stride", [&] { options.stride = line.window("the stride", axes); }},
                {"pad", [&] { options.padding = line.window("the padding", axes, 0); }},
                {"outpad", [&] { options.output_padding = line.window("the padding", axes, 0); }},
                {"dilation", [&] { options.dilation = line.window("the dilation", axes); }},
                {"groups", [&] { options.groups = line.integer("the number of groups"); }},
                {"nobias", [&] { options.bias = false; }}},
               true);
  if (axes == 1) return finished(line, ConvTranspose1d(line.channels(), out, options));
  return finished(line, ConvTranspose2d(line.channels(), out, options));
}

template <class Image, class Sequence>
AnyModule pool(Line& line) {
  const int axes = spatial_axes(line);
  const PerAxis window = line.window("the window", axes);
  PoolOptions options;
  line.options({{"stride", [&] { options.stride = line.window("the stride", axes); }},
                {"pad", [&] { options.padding = line.padding(axes); }}});
  if (axes == 1) return Sequence{window, options};
  return Image{window, options};
}

AnyModule globalpool(Line& line) {
  spatial_axes(line);
  line.options({});
  return GlobalAvgPool{};
}

AnyModule flatten_layer(Line& line) {
  line.options({});
  return Flatten{};
}

AnyModule reshape_layer(Line& line) {
  Reshape layer;
  while (!line.done()) layer.sizes.push_back(line.integer("a size", -1));
  return layer;
}

AnyModule dense(Line& line) {
  line.axes(1, kMaxRank, "[…, features]");
  const std::int64_t out = line.integer("the number of outputs");
  LinearOptions options;
  line.options({{"nobias", [&] { options.bias = false; }}}, true);
  return finished(line, Linear(line.channels(), out, options));
}

template <class Norm>
AnyModule norm(Line& line) {
  line.axes(1, kMaxRank, "[…, channels]");
  line.options({}, true);
  return finished(line, Norm(line.channels()));
}

AnyModule groupnorm(Line& line) {
  line.axes(1, kMaxRank, "[…, channels]");
  const std::int64_t groups = line.integer("the number of groups");
  line.options({}, true);
  return finished(line, GroupNorm(groups, line.channels()));
}

AnyModule dropout_layer(Line& line) {
  const double p = line.probability("the probability");
  line.options({});
  return Dropout{p};
}

AnyModule embedding_layer(Line& line) {
  const std::int64_t count = line.integer("the number of words");
  const std::int64_t width = line.integer("the size of a vector");
  line.options({});
  return Embedding(count, width);
}

template <class Layer, class Options>
AnyModule recurrent(Line& line) {
  line.axes(2, 2, "a sequence [length, features]");
  const std::int64_t hidden = line.integer("the size of the state");
  Options options{.batch_first = true};
  bool last = true;
  line.options({{"layers", [&] { options.layers = line.integer("the number of layers"); }},
                {"bidirectional", [&] { options.bidirectional = true; }},
                {"dropout", [&] { options.dropout = line.probability("the probability"); }},
                {"last", [&] { last = true; }},
                {"sequence", [&] { last = false; }}});
  return Recurrent<Layer>{Layer(line.channels(), hidden, options), options.bidirectional, last};
}

struct Keyword {
  std::string_view name;
  AnyModule (*make)(Line&);
};
constexpr Keyword kKeywords[] = {
    {"conv", conv},
    {"depthwise", depthwise},
    {"convtranspose", convtranspose},
    {"maxpool", pool<MaxPool2d, MaxPool1d>},
    {"avgpool", pool<AvgPool2d, AvgPool1d>},
    {"globalpool", globalpool},
    {"flatten", flatten_layer},
    {"reshape", reshape_layer},
    {"dense", dense},
    {"batchnorm", norm<BatchNorm>},
    {"layernorm", norm<LayerNorm>},
    {"rmsnorm", norm<RMSNorm>},
    {"groupnorm", groupnorm},
    {"dropout", dropout_layer},
    {"embedding", embedding_layer},
    {"lstm", recurrent<LSTM, LSTMOptions>},
    {"gru", recurrent<GRU, GRUOptions>},
    {"rnn", recurrent<RNN, RNNOptions>},
};

AnyModule make_layer(Line& line) {
  const std::string keyword = line.word("a layer");
  for (const Keyword& known : kKeywords)
    if (known.name == keyword) {
      try {
        return known.make(line);
      } catch (const Error& error) {
        if (error.where() == line.where()) throw;
        throw error.within(line.where());
      }
    }
  if (auto function = find_activation(keyword)) {
    line.options({});
    return Activation{std::move(*function)};
  }
  std::vector<std::string> names;
  for (const Keyword& known : kKeywords) names.emplace_back(known.name);
  for (std::string& word : activation_words()) names.push_back(std::move(word));
  throw unknown_name(line.where(), "layer", keyword, names);
}

bool begins(std::string_view text, std::string_view keyword) {
  const std::size_t at = text.find_first_not_of(" \t");
  return at != std::string_view::npos && plain_name(text.substr(at, keyword.size())) == keyword;
}

// A picture of one channel may come without that axis: a window of two sizes tells it from a sequence.
Shape first_shape(std::span<const std::string> lines, const Shape& input) {
  Shape shape = input;
  if (input.rank() != 2 || lines.empty()) return shape;
  const std::string& line = lines[0];
  for (const std::string_view keyword : {"conv", "depthwise", "maxpool", "avgpool"})
    if (begins(line, keyword))
      for (std::size_t i = 1; i + 1 < line.size(); ++i)
        if ((line[i] == 'x' || line[i] == 'X') &&
            std::isdigit(static_cast<unsigned char>(line[i - 1])) != 0 &&
            std::isdigit(static_cast<unsigned char>(line[i + 1])) != 0) {
          shape.push_back(1);
          return shape;
        }
  return shape;
}

// What the layer makes of a batch; nothing is computed.
Shape output_of(AnyModule& layer, const Shape& input) {
  Shape batch{2};
  for (const Dim& dim : input) batch.push_back(dim);
  const bool words = layer.get<Embedding>() != nullptr;
  nn::eval(layer);
  const Tensor y = layer(detail::stand_in(std::move(batch), words ? DType::i32 : DType::f32));
  nn::train(layer);
  Shape output;
  for (std::size_t i = 1; i < y.shape().size(); ++i) output.push_back(y.shape()[i]);
  if (output.count() == 0)
    throw Error(ErrorKind::kShape, "output", "nothing is left", "sizes of 1 or more", output.to_string());
  return output;
}

struct Made {
  Chain chain;
  Shape output;
};

Made made(std::span<const std::string> lines, const Shape& input) {
  if (lines.empty())
    throw Error(ErrorKind::kInvalidArgument, "layers_model", "no layers", "at least one line", "none");
  for (const Dim& dim : input)
    if (!dim.is_static() || dim.value() < 1)
      throw Error(ErrorKind::kShape, "layers_model", "the shape of an example", "sizes of 1 or more",
                  input.to_string());
  Made result{{}, first_shape(lines, input)};
  for (std::size_t i = 0; i < lines.size(); ++i) {
    Line line(i + 1, lines[i], result.output);
    AnyModule layer = make_layer(line);
    try {
      result.output = output_of(layer, result.output);
    } catch (const Error& error) {
      throw error.within(line.where());
    }
    result.chain.add(std::move(layer));
  }
  return result;
}

}  // namespace

AnyModule layers_model(std::span<const std::string> lines, const Shape& input) {
  return made(lines, input).chain;
}

AnyModule layers_model(std::initializer_list<std::string_view> lines, const Shape& input) {
  const std::vector<std::string> texts(lines.begin(), lines.end());
  return layers_model(texts, input);
}

Shape layers_output(std::span<const std::string> lines, const Shape& input) {
  return made(lines, input).output;
}

}  // namespace systole::nn
