// Calls of webhooks as items of triggers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fsm/when/trigger.h"

namespace dfsmr {

// As it came over HTTP: POST /hooks/NS/PATH?QUERY.
struct WebhookRequest {
  std::string ns;
  std::string path;   // without the slash in front
  std::string query;  // as it stood in the URL, without the question mark
  std::vector<std::pair<std::string, std::string>> headers;  // in any case
  std::string body;

  // The value of the first header of this name, which is in lower case.
  std::optional<std::string> Header(std::string_view name) const;
};

// {method, path, query, headers, body}. Without the headers that prove who calls.
std::string ItemOf(const WebhookRequest& request, const WebhookSource& webhook);

}  // namespace dfsmr
