#include "fsm/filter/words.h"

#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr std::string_view kNot = "not:";

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  Result<std::vector<FilterWord>> Split() {
    std::vector<FilterWord> words;
    while (SkipSpaces()) {
      if (words.size() == kFilterTerms) {
        return Error{Code::kInvalidArgument, Reason::kTooLarge,
                     "column " + std::to_string(Column()) + ": a filter has at most " +
                         std::to_string(kFilterTerms) + " terms"};
      }
      auto word = TakeWord();
      if (!word) return word.error();
      words.push_back(*std::move(word));
    }
    return words;
  }

 private:
  bool AtEnd() const { return at_ == text_.size(); }
  bool AtEndOfWord() const { return AtEnd() || IsSpace(text_[at_]); }
  size_t Column() const { return Characters(text_.substr(0, at_)) + 1; }

  // False: nothing is left.
  bool SkipSpaces() {
    while (!AtEnd() && IsSpace(text_[at_])) ++at_;
    return !AtEnd();
  }

  Result<FilterWord> TakeWord() {
    FilterWord word;
    for (bool more = true; more;) {
      more = false;
      if (!AtEnd() && text_[at_] == '-') {
        word.negated = !word.negated;
        ++at_;
        more = true;
      } else if (text_.substr(at_).starts_with(kNot)) {
        word.negated = !word.negated;
        at_ += kNot.size();
        more = true;
      }
    }
    TakeKey(&word);
    for (bool more = true; more;) {
      auto value = TakeValue();
      if (!value) return value.error();
      word.values.push_back(*std::move(value));
      more = !AtEndOfWord();  // then a comma stands here
      if (more) ++at_;
    }
    return word;
  }

  // A key ends with the first ':' if no quote stands before it.
  void TakeKey(FilterWord* word) {
    word->key_column = Column();
    for (size_t i = at_; i < text_.size() && !IsSpace(text_[i]) && text_[i] != '"'; ++i) {
      if (text_[i] != ':') continue;
      word->has_key = true;
      word->key = text_.substr(at_, i - at_);
      at_ = i + 1;
      return;
    }
  }

  Result<FilterValue> TakeValue() {
    FilterValue value;
    value.column = Column();
    const auto is_star = [this] { return !AtEnd() && text_[at_] == '*'; };
    const size_t begin = at_;
    if (is_star()) {
      value.open_front = true;
      ++at_;
    }
    while (!AtEndOfWord() && text_[at_] != ',') {
      if (text_[at_] == '"') {
        value.quoted = true;
        auto taken = TakeQuoted(&value.text);
        if (!taken) return taken.error();
        continue;
      }
      const bool star = is_star();
      const size_t column = Column();
      const char c = text_[at_++];
      if (!star) {
        value.text += c;
      } else if (AtEndOfWord() || text_[at_] == ',') {
        value.open_back = true;
      } else {
        return BadFilter(column,
                         "'*' stands at the begin or the end of a text; write a '*' that is "
                         "part of it in quotes");
      }
    }
    if (at_ == begin || (value.text.empty() && !value.quoted && !value.open_front)) {
      return BadFilter(value.column, "a value is missing here");
    }
    if (value.text.empty() && value.open_front) value.open_back = true;  // "*"
    return value;
  }

  Result<Ok> TakeQuoted(std::string* out) {
    const size_t column = Column();
    ++at_;
    while (!AtEnd() && text_[at_] != '"') {
      const bool escaped = text_[at_] == '\\' && at_ + 1 < text_.size() &&
                           (text_[at_ + 1] == '"' || text_[at_ + 1] == '\\');
      if (escaped) ++at_;
      *out += text_[at_++];
    }
    if (AtEnd()) return BadFilter(column, "the quote that begins here has no end");
    ++at_;
    return Ok{};
  }

  const std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Error BadFilter(size_t column, std::string_view problem) {
  return {Code::kInvalidArgument, Reason::kBadFilter,
          "filter, column " + std::to_string(column) + ": " + std::string(problem)};
}

Result<std::vector<FilterWord>> SplitFilter(std::string_view text) {
  if (text.size() > kFilterBytes) {
    return Error{Code::kInvalidArgument, Reason::kTooLarge,
                 "a filter has at most " + std::to_string(kFilterBytes) + " bytes, this one has " +
                     std::to_string(text.size())};
  }
  if (const auto bad = InvalidUtf8(text)) {
    return BadFilter(Characters(text.substr(0, *bad)) + 1, "this is not UTF-8");
  }
  return Splitter(text).Split();
}

}  // namespace dfsmr
