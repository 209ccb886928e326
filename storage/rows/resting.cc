#include "storage/rows/resting.h"

#include "storage/rows/encoding.h"
#include "storage/rows/keys.h"

namespace dfsmr::rows {
namespace {

// Reads protobuf's wire format in place. Ends at a field of a wire type that is never written.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  // Reads the next field. False: there is none, or the bytes are damaged.
  bool Next() {
    if (rest_.empty()) return false;
    const uint64_t tag = Varint();
    field = static_cast<int>(tag >> 3);
    if ((tag & 7) == 0) return number = Varint(), !failed;
    const uint64_t size = (tag & 7) == 2 ? Varint() : UINT64_MAX;
    failed = failed || size > rest_.size();
    if (failed) return false;
    text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }

  int field = 0;
  uint64_t number = 0;    // of a varint
  std::string_view text;  // of a text, or a message
  bool failed = false;

 private:
  uint64_t Varint() {
    const auto value = TakeVarint(&rest_, 64);
    failed = failed || !value;
    return value.value_or(0);
  }

  std::string_view rest_;
};

// False: the token holds more than a resting one.
bool ReadResting(std::string_view token, Resting* out) {
  using Field = record::Token;
  int64_t available_at = 0;
  WireReader reader(token);
  while (reader.Next()) {
    switch (reader.field) {
      case Field::kNodeFieldNumber:
        out->node = reader.text;
        break;
      case Field::kVisitFieldNumber:
        out->visit = reader.number;
        break;
      case Field::kStateFieldNumber:
        out->token = static_cast<TokenState>(reader.number);
        break;
      case Field::kAvailableAtFieldNumber:
        available_at = static_cast<int64_t>(reader.number);
        break;
      case Field::kAttemptFieldNumber:
      case Field::kParamsFieldNumber:
      case Field::kErrorFieldNumber:
      case Field::kForgottenEpochFieldNumber:
        break;
      default:
        return false;
    }
  }
  out->available_at = available_at == -1 ? kNever : FromMicros(available_at);
  return !reader.failed && !out->node.empty();
}

}  // namespace

std::optional<Resting> RestingIn(std::string_view value) {
  using Field = record::Instance;
  Resting out;
  WireReader reader(value);
  while (reader.Next()) {
    switch (reader.field) {
      case Field::kMachineFieldNumber:
        out.machine = reader.text;
        break;
      case Field::kVersionFieldNumber:
        out.version = static_cast<uint32_t>(reader.number);
        break;
      case Field::kStateFieldNumber:
        out.state = static_cast<InstanceState>(reader.number);
        break;
      case Field::kPriorityFieldNumber: {  // sint32: zigzag
        const auto priority = static_cast<uint32_t>(reader.number);
        /*mutant planted-24*/ out.priority =
            static_cast<int32_t>(priority >> 1 ^ (0 - (priority & 1))); /*end*/
        break;
      }
      case Field::kStartTimeFieldNumber:
        out.start_time = FromMicros(static_cast<int64_t>(reader.number));
        break;
      case Field::kStartAtFieldNumber:
        out.start_at = FromMicros(static_cast<int64_t>(reader.number));
        break;
      case Field::kTokensFieldNumber:
        if (!out.node.empty() || !ReadResting(reader.text, &out)) return std::nullopt;
        break;
      case Field::kResultFieldNumber:
      case Field::kParentFieldNumber:
      case Field::kErrorFieldNumber:
      case Field::kLastVisitFieldNumber:
      case Field::kEntriesFieldNumber:
      case Field::kLastAnswerFieldNumber:
      case Field::kHistoryFieldNumber:
      case Field::kBareFieldNumber:
      case Field::kChangeTimeFieldNumber:
        break;
      default:
        return std::nullopt;
    }
  }
  const bool plain = out.node.empty() ? out.state == InstanceState::kScheduled
                                      : out.state == InstanceState::kRunning;
  return plain && !reader.failed ? std::optional(out) : std::nullopt;
}

Result<Ok> ScanLive(const Reader& reader, const Resolve& resolve,
                    const std::function<Result<Ok>(const Resting&)>& visit,
                    const std::function<Result<Ok>(Instance)>& visit_other) {
  const std::string begin = Key(reader.partition, kLive);
  Result<Ok> done = Ok{};
  auto scanned = reader.view.ScanOnce(
      begin, PrefixEnd(begin), [&](std::string_view key, std::string_view value) {
        KeyReader parts(key);
        const std::string_view ns = parts.Text();
        const std::string_view id = parts.Text();
        if (auto resting = RestingIn(value)) {
          resting->ns = ns;
          resting->id = id;
          done = visit(*resting);
        } else {
          auto instance = DecodeInstance(reader, {ns, id}, key, value, resolve);
          done = instance ? visit_other(*std::move(instance)) : instance.error();
        }
        return done.has_value();
      });
  return scanned ? done : scanned;
}

}  // namespace dfsmr::rows
