// Texts as execve takes them.
#pragma once

#include <string>
#include <vector>

namespace dfsmr::cli {

// Into `texts`, which must outlive them; a null pointer comes last.
inline std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace dfsmr::cli
