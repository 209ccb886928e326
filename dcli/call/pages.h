// Reading a list that comes in pages.
#pragma once

#include <utility>

#include "fsm/base/result.h"

namespace dfsmr::cli {

// All pages as one reply. `call` asks for the page that the request's token names.
template <typename Request, typename Call>
auto AllPages(Request request, Call call) -> decltype(call(request)) {
  auto all = call(request);
  while (all && !all->next_page_token().empty()) {
    request.set_page_token(all->next_page_token());
    all->clear_next_page_token();
    auto page = call(request);
    if (!page) return page;
    all->MergeFrom(*page);
  }
  return all;
}

}  // namespace dfsmr::cli
