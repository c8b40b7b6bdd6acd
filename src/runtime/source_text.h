#pragma once

// As much of C as it takes to know a kernel by its declaration: types by their names, typedefs of them,
// functions with their parameters. It reads past what it does not know; compilers judge sources.

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/source_kernels.h"

namespace systole::runtime {

struct SourceToken {
  std::string_view text;
  std::size_t offset;  // in the source
};
// Without comments, strings and preprocessor lines.
std::vector<SourceToken> source_tokens(std::string_view source);

// "typedef unsigned int index;" and "using index = unsigned int;" as index → "unsigned int", "enum Mode {…}"
// as Mode → "int".
using Typedefs = std::map<std::string, std::string, std::less<>>;
Typedefs source_typedefs(const std::vector<SourceToken>& tokens);
// "#define real float" as real → "float"; without those of macros with parameters.
Typedefs source_defines(std::string_view source);

// The parameter's dtype and lanes from a type's words without pointer and qualifiers; nothing for types that
// are no numbers.
struct NumberType {
  DType dtype;
  int lanes = 1;
};
std::optional<NumberType> number_type(std::string_view words, const Typedefs& typedefs);

// A function that is defined in the source.
struct SourceSignature {
  std::string name;
  std::vector<std::string> before;  // words between the last ';' or '}' and the name: "static", "void"
  std::vector<SourceParameter> parameters;
  std::size_t begin;     // where the first of these words is, or the name
  std::size_t end;       // of the parameter list: where its ')' is
  bool is_plain = true;  // every parameter has a kind: a number, or a pointer to numbers, with a name
  std::string scope{};   // the namespaces it is in: "filters::"
};
std::vector<SourceSignature> source_signatures(std::string_view source);

// The words of the type in "__constant__ float name[7];", for a variable outside of functions whose
// declaration has one of the words in `marks`; empty when there is none.
std::string variable_type(const std::vector<SourceToken>& tokens, std::string_view name,
                          std::span<const std::string_view> marks);

}  // namespace systole::runtime
