#pragma once

// What readers of data sets share.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/error.h"
#include "systole/base/literal.h"

namespace systole::data {

class Source;
struct ImageOptions;
struct Table;

// The file of this name in the folder, packed or not; kNotFound when there is none, with the command that
// fetches `set`.
std::filesystem::path found_in(const std::filesystem::path& folder, const std::string& name,
                               std::string_view set);

// How long an IDX file is, from its first bytes; nothing while they are too few or no header of one.
std::optional<std::uint64_t> idx_length(std::span<const std::byte> first);

// Labels as i32; one that is no class is kParse with its sample and its place, offset + i·step, in the file.
Literal class_numbers(std::span<const std::uint8_t> labels, std::int64_t classes, const std::string& file,
                      std::uint64_t offset, std::uint64_t step);

// A column by its name, or its number from 0; from the end where it is negative.
std::size_t column_place(std::string_view name, const Table& table, std::string_view where);
// Throws kNotFound with the column's nearest name, or all of them.
[[noreturn]] void no_column(std::string_view name, const Table& table, std::string_view where);

// images() with numbers for these classes, or for its own when there are none.
Source images_like(const std::filesystem::path& folder, const ImageOptions& options,
                   std::vector<std::string> classes);

// Throws kParse where the text is not UTF-8, with the encoding that it seems to have and how to convert it;
// `otherwise` is what else the reader takes.
void require_utf8(std::string_view text, std::string_view file, std::string_view otherwise);

// Whether an error of this kind is the fault of the sample's file, so that another sample may be read; a lack
// of memory or a wrong call is not.
bool is_the_samples(ErrorKind kind);

// Names in the order of a person: by their numbers where they differ in those, else by their letters.
std::vector<std::string> in_order(std::vector<std::string> names);

}  // namespace systole::data
