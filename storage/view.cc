#include "storage/view.h"

namespace dfsmr {

std::string PrefixEnd(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty()) {
    if (const auto last = static_cast<unsigned char>(end.back()); last != 0xff) {
      end.back() = static_cast<char>(last + 1);
      return end;
    }
    end.pop_back();
  }
  return end;
}

}  // namespace dfsmr
