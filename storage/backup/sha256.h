// The SHA-256 of bytes that come in pieces.
#pragma once

#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace dfsmr {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Add(std::string_view bytes);
  // 64 hex digits of all that was added since the begin or the last Take.
  std::string Take();

 private:
  evp_md_ctx_st* const context_;
};

}  // namespace dfsmr
