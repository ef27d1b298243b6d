// The dashboard and the report: the history as web pages, from a local server or in one offline file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "track/store.h"

namespace fk {

// Empty, or why this build has no pages.
std::string web_unavailable();

struct ServeOptions {
  std::string database;            // empty: the default one
  std::string host = "127.0.0.1";  // any host but this machine needs a token
  int port = 8765;                 // another one is chosen if it is in use
  std::string token;               // for other hosts; random if empty
  std::function<void(const std::string& url)> ready = [](const std::string&) {};
};

// Serves until the process ends. Throws Error if no port is free.
void serve_dashboard(const ServeOptions& options);

// All pages with their data as one HTML file that opens without a server: the newest `runs` in full.
std::string dashboard_file(StoreReader& store, int runs);

// One run likewise, opening on its report.
std::string report_file(StoreReader& store, const std::string& run_id);

struct ChartFile {
  std::string name;  // "rms_norm-roofline"; no characters a file name cannot have
  std::string svg;
  std::string png;  // the file's bytes; empty where not asked for
};

// The charts of a report, drawn by a headless browser. Throws Error if there is none.
std::vector<ChartFile> draw_charts(const std::string& report_path, const std::string& run_id, bool png);

}  // namespace fk
