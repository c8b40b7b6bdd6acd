#include "systole/io/tokenizer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <queue>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "base/beneath.h"
#include "base/file.h"
#include "io/json.h"
#include "io/tokenizer_pattern.h"
#include "io/words.h"
#include "systole/base/error.h"

namespace systole::io {

namespace {

constexpr std::string_view kEndOfText = "<|endoftext|>";
constexpr std::size_t kBytes = 256;

using Pair = std::uint64_t;  // two pieces
Pair pair_of(int left, int right) {
  return static_cast<Pair>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

struct Merge {
  int rank, piece;
};

// The files write a byte as one printable character: itself where it is one, else one of those from U+0100
// on.
bool printable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}
const std::array<char32_t, kBytes>& written_bytes() {
  static const std::array<char32_t, kBytes> table = [] {
    std::array<char32_t, kBytes> written{};
    char32_t next = kBytes;
    for (int byte = 0; byte < static_cast<int>(kBytes); ++byte)
      written[static_cast<std::size_t>(byte)] = printable(byte) ? static_cast<char32_t>(byte) : next++;
    return written;
  }();
  return table;
}
// The order of the first 256 pieces: printable bytes first.
std::vector<int> byte_order() {
  std::vector<int> order;
  for (const bool wanted : {true, false})
    for (int byte = 0; byte < static_cast<int>(kBytes); ++byte)
      if (printable(byte) == wanted) order.push_back(byte);
  return order;
}

std::string written(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    const char32_t c = written_bytes()[static_cast<unsigned char>(byte)];
    if (c < 0x80) {
      text += static_cast<char>(c);
    } else {  // below U+0800
      text += static_cast<char>(0xC0 | c >> 6);
      text += static_cast<char>(0x80 | (c & 0x3F));
    }
  }
  return text;
}

// The bytes that a text of the files stands for; none when a character is no byte.
std::optional<std::string> unwritten(std::string_view text) {
  static const std::unordered_map<char32_t, char> bytes = [] {
    std::unordered_map<char32_t, char> map;
    for (std::size_t byte = 0; byte < kBytes; ++byte) map[written_bytes()[byte]] = static_cast<char>(byte);
    return map;
  }();
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char32_t c = static_cast<unsigned char>(text[i]);
    if (c >= 0x80) {
      if ((c & 0xE0) != 0xC0 || i + 1 == text.size()) return std::nullopt;
      c = (c & 0x1F) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3F);
    }
    const auto at = bytes.find(c);
    if (at == bytes.end()) return std::nullopt;
    out += at->second;
  }
  return out;
}

}  // namespace

struct Tokenizer::State {
  std::vector<std::string> pieces;  // their bytes
  std::vector<Pair> learned;        // in order
  std::unordered_map<Pair, Merge> merges;
  std::array<int, kBytes> of_byte{};
  int end_of_text = -1;

  // Joins the pieces of one word, the pair that was learned first before all others, from the left.
  void join(std::string_view word, std::vector<int>& out) const {
    struct Node {
      int piece, before, after;  // neighbours, -1: none
    };
    struct Candidate {
      int rank, at, left, right;                      // the pair as it was when found
      bool operator<(const Candidate& other) const {  // the queue's top is the largest
        return rank != other.rank ? rank > other.rank : at > other.at;
      }
    };
    const int size = static_cast<int>(word.size());
    std::vector<Node> nodes(word.size());
    for (int i = 0; i < size; ++i)
      nodes[static_cast<std::size_t>(i)] = {
          of_byte[static_cast<unsigned char>(word[static_cast<std::size_t>(i)])], i - 1,
          i + 1 < size ? i + 1 : -1};
    const auto node = [&](int i) -> Node& { return nodes[static_cast<std::size_t>(i)]; };
    std::priority_queue<Candidate> queue;
    const auto consider = [&](int i) {
      if (i < 0 || node(i).after < 0) return;
      const int left = node(i).piece, right = node(node(i).after).piece;
      if (const auto at = merges.find(pair_of(left, right)); at != merges.end())
        queue.push({at->second.rank, i, left, right});
    };
    for (int i = 0; i < size; ++i) consider(i);
    while (!queue.empty()) {
      const Candidate best = queue.top();
      queue.pop();
      Node& left = node(best.at);
      if (left.piece != best.left || left.after < 0 || node(left.after).piece != best.right) continue;
      Node& right = node(left.after);
      left.piece = merges.at(pair_of(best.left, best.right)).piece;
      left.after = right.after;
      right.piece = -1;
      if (left.after >= 0) node(left.after).before = best.at;
      consider(left.before);
      consider(best.at);
    }
    for (int i = 0; i >= 0; i = node(i).after) out.push_back(node(i).piece);
  }

  void add_merge(int left, int right, int piece) {
    merges.emplace(pair_of(left, right), Merge{static_cast<int>(learned.size()), piece});
    learned.push_back(pair_of(left, right));
  }
  void add_bytes() {
    for (const int byte : byte_order()) {
      of_byte[static_cast<std::size_t>(byte)] = static_cast<int>(pieces.size());
      pieces.emplace_back(1, static_cast<char>(byte));
    }
  }
};

namespace {

const char* existing(const std::filesystem::path& folder, const char* name, const char* other) {
  std::error_code ignored;
  for (const char* file : {name, other})
    if (std::filesystem::exists(std::filesystem::symlink_status(folder / file, ignored))) return file;
  throw Error(ErrorKind::kNotFound, folder.string(), "a tokenizer's file is missing",
              std::string(name) + " or " + other);
}

}  // namespace

Tokenizer Tokenizer::gpt2(const std::filesystem::path& folder, const ReadOptions& options) {
  const LinkRule rule = options.follow_links ? LinkRule::any : LinkRule::inside;
  require_gpt2_pattern(folder, rule);
  auto state = std::make_shared<State>();
  const char* const names_file = existing(folder, "encoder.json", "vocab.json");
  const std::filesystem::path names = folder / names_file;
  std::unordered_map<std::string, int> ids;
  std::string text = read_text_beneath(folder, names_file, rule);
  JsonReader in(text, names.string());
  in.begin_object();
  for (std::string_view key; in.next_key(key);) {
    const std::size_t at = in.position();
    const std::optional<std::string> bytes = unwritten(key);
    if (!bytes) in.fail(at, "a piece with a character that stands for no byte", {}, std::string(key));
    const std::uint64_t id = in.unsigned_number();
    if (id > 1U << 24) in.fail(at, "the number of a piece", "at most 16777216", std::to_string(id));
    if (!ids.emplace(*bytes, static_cast<int>(id)).second)
      in.fail(at, "a piece stands twice", {}, std::string(key));
  }
  in.end();
  const auto broken = [](const std::filesystem::path& file, std::size_t line, std::string message,
                         std::string expected, std::string got) {
    throw Error(ErrorKind::kParse, file.string() + (line > 0 ? ":" + std::to_string(line) : ""),
                std::move(message), std::move(expected), std::move(got));
  };
  state->pieces.resize(ids.size());
  std::vector<bool> taken(ids.size());
  for (const auto& [bytes, id] : ids) {
    const auto place = static_cast<std::size_t>(id);
    if (place >= ids.size() || taken[place])
      broken(names, 0, "the numbers of the pieces", "0 to " + std::to_string(ids.size() - 1) + ", each once",
             std::to_string(id));
    taken[place] = true;
    state->pieces[place] = bytes;
  }
  for (std::size_t byte = 0; byte < kBytes; ++byte) {
    const auto at = ids.find(std::string(1, static_cast<char>(byte)));
    if (at == ids.end()) broken(names, 0, "a byte is no piece", "all 256", std::to_string(byte));
    state->of_byte[byte] = at->second;
  }
  if (const auto at = ids.find(std::string(kEndOfText)); at != ids.end()) state->end_of_text = at->second;

  const char* const pairs_file = existing(folder, "vocab.bpe", "merges.txt");
  const std::filesystem::path pairs = folder / pairs_file;
  const std::string lines = read_text_beneath(folder, pairs_file, rule);
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    std::string_view line(lines.data() + begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    const std::size_t space = line.find(' ');
    const auto id = [&](std::string_view part) {
      const std::optional<std::string> bytes = unwritten(part);
      const auto at = bytes ? ids.find(*bytes) : ids.end();
      if (at == ids.end()) broken(pairs, number, "no piece has this name", {}, std::string(part));
      return at->second;
    };
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
      broken(pairs, number, "a line", "two pieces", std::string(line));
    const std::string whole = std::string(line.substr(0, space)) + std::string(line.substr(space + 1));
    state->add_merge(id(line.substr(0, space)), id(line.substr(space + 1)), id(whole));
  }
  return Tokenizer(std::move(state));
}

Tokenizer Tokenizer::train(std::string_view text, std::int64_t vocabulary) {
  if (vocabulary < static_cast<std::int64_t>(kBytes) + 1 || vocabulary > 1 << 24)
    throw Error(ErrorKind::kInvalidArgument, "Tokenizer::train", "the vocabulary",
                "257 (all bytes and the end of text) to 16777216", std::to_string(vocabulary));
  auto state = std::make_shared<State>();
  state->add_bytes();

  struct Word {
    std::vector<int> pieces;
    std::int64_t count;
  };
  std::vector<Word> words;
  {
    std::unordered_map<std::string_view, std::size_t> known;
    while (!text.empty()) {
      const std::string_view word = text.substr(0, first_word(text));
      text.remove_prefix(word.size());
      const auto [at, fresh] = known.try_emplace(word, words.size());
      if (fresh) {
        words.push_back({{}, 0});
        for (const char byte : word)
          words.back().pieces.push_back(state->of_byte[static_cast<unsigned char>(byte)]);
      }
      ++words[at->second].count;
    }
  }
  // How often each pair occurs, and in which words it once did.
  std::unordered_map<Pair, std::int64_t> counts;
  std::unordered_map<Pair, std::vector<std::size_t>> places;
  struct Candidate {
    std::int64_t count;
    Pair pair;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };
  std::priority_queue<Candidate> queue;
  for (std::size_t w = 0; w < words.size(); ++w)
    for (std::size_t i = 0; i + 1 < words[w].pieces.size(); ++i) {
      const Pair pair = pair_of(words[w].pieces[i], words[w].pieces[i + 1]);
      counts[pair] += words[w].count;
      places[pair].push_back(w);
    }
  for (const auto& [pair, count] : counts) queue.push({count, pair});

  while (static_cast<std::int64_t>(state->pieces.size()) + 1 < vocabulary && !queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    const std::int64_t now = counts[best.pair];
    if (now != best.count) {  // it has changed since
      if (now > 1) queue.push({now, best.pair});
      continue;
    }
    if (best.count < 2) break;
    const int left = static_cast<int>(best.pair >> 32), right = static_cast<int>(best.pair & 0xFFFFFFFF);
    const int piece = static_cast<int>(state->pieces.size());
    state->add_merge(left, right, piece);
    state->pieces.push_back(state->pieces[static_cast<std::size_t>(left)] +
                            state->pieces[static_cast<std::size_t>(right)]);
    std::vector<std::size_t> touched = std::move(places[best.pair]);
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (const std::size_t w : touched) {
      Word& word = words[w];
      const auto note = [&](std::int64_t sign) {
        for (std::size_t i = 0; i + 1 < word.pieces.size(); ++i) {
          const Pair pair = pair_of(word.pieces[i], word.pieces[i + 1]);
          std::int64_t& count = counts[pair];
          count += sign * word.count;
          if (sign > 0 && (word.pieces[i] == piece || word.pieces[i + 1] == piece)) {
            places[pair].push_back(w);
            queue.push({count, pair});
          }
        }
      };
      note(-1);
      std::vector<int> joined;
      for (std::size_t i = 0; i < word.pieces.size(); ++i) {
        const bool here = i + 1 < word.pieces.size() && word.pieces[i] == left && word.pieces[i + 1] == right;
        joined.push_back(here ? piece : word.pieces[i]);
        i += here ? 1 : 0;
      }
      word.pieces = std::move(joined);
      note(1);
    }
  }
  state->end_of_text = static_cast<int>(state->pieces.size());
  state->pieces.emplace_back(kEndOfText);
  return Tokenizer(std::move(state));
}

std::vector<int> Tokenizer::encode(std::string_view text, bool special) const {
  std::vector<int> ids;
  // Words come again and again; each is joined once. Where its pieces stand in `ids`:
  struct Place {
    std::size_t begin, count;
  };
  std::unordered_map<std::string_view, Place> known;
  const auto plain = [&](std::string_view rest) {
    while (!rest.empty()) {
      const std::string_view word = rest.substr(0, first_word(rest));
      rest.remove_prefix(word.size());
      const auto [at, fresh] = known.try_emplace(word, Place{ids.size(), 0});
      if (fresh) {
        state_->join(word, ids);
        at->second.count = ids.size() - at->second.begin;
      } else {
        const Place place = at->second;
        for (std::size_t i = 0; i < place.count; ++i) ids.push_back(ids[place.begin + i]);
      }
    }
  };
  while (special && state_->end_of_text >= 0) {
    const std::size_t at = text.find(kEndOfText);
    if (at == std::string_view::npos) break;
    plain(text.substr(0, at));
    ids.push_back(state_->end_of_text);
    text.remove_prefix(at + kEndOfText.size());
  }
  plain(text);
  return ids;
}

std::string Tokenizer::piece(int id) const {
  if (id < 0 || id >= vocabulary())
    throw Error(ErrorKind::kInvalidArgument, "Tokenizer", "the number of a piece",
                "0 to " + std::to_string(vocabulary() - 1), std::to_string(id));
  return state_->pieces[static_cast<std::size_t>(id)];
}

std::string Tokenizer::decode(std::span<const int> ids) const {
  std::string text;
  for (const int id : ids) text += piece(id);
  return text;
}

std::int64_t Tokenizer::vocabulary() const { return static_cast<std::int64_t>(state_->pieces.size()); }

int Tokenizer::end_of_text() const {
  if (state_->end_of_text < 0)
    throw Error(ErrorKind::kNotFound, "Tokenizer", "it has no piece " + std::string(kEndOfText));
  return state_->end_of_text;
}

void Tokenizer::save(const std::filesystem::path& folder) const {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error(ErrorKind::kIo, folder.string(), "the folder cannot be made: " + error.message());
  std::string json = "{", pairs = "#version: 0.2\n";
  for (std::size_t id = 0; id < state_->pieces.size(); ++id) {
    json += id == 0 ? "\"" : ", \"";
    for (const char c : written(state_->pieces[id])) {
      if (c == '"' || c == '\\') json += '\\';
      json += c;
    }
    json += "\": " + std::to_string(id);
  }
  json += "}\n";
  for (const Pair pair : state_->learned)
    pairs += written(state_->pieces[pair >> 32]) + " " + written(state_->pieces[pair & 0xFFFFFFFF]) + "\n";
  write_file(folder / "encoder.json", std::as_bytes(std::span(json)));
  write_file(folder / "vocab.bpe", std::as_bytes(std::span(pairs)));
}

}  // namespace systole::io
