// The routes as an OpenAPI 3.1 document, made of the descriptors and the protos' comments.
#pragma once

#include <string>

namespace dfsmr::http {

// `base` stands in front of all routes; `compat`: the original service is served, too.
std::string OpenApi(const std::string& base, bool compat);

}  // namespace dfsmr::http
