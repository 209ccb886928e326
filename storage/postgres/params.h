// The parameters of a statement, in PostgreSQL's binary form.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dfsmr {

class PgParams {
 public:
  PgParams& Int(int32_t value);
  PgParams& Long(int64_t value);
  PgParams& Bool(bool value);
  // Text or bytes, which are copied.
  PgParams& Text(std::string_view value);
  // As Text, but not copied: they must stay until the statement was run.
  PgParams& View(std::string_view value);
  // An array of bytea. The texts are copied.
  PgParams& Arrays(const std::vector<std::string_view>& values);

  const std::vector<const char*>& values() const { return values_; }
  const std::vector<int>& sizes() const { return sizes_; }

 private:
  PgParams& Own(std::string bytes);

  std::vector<std::shared_ptr<const std::string>> owned_;  // copies share them
  std::vector<const char*> values_;
  std::vector<int> sizes_;
};

}  // namespace dfsmr
