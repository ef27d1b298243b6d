// The dashboard and the report: history as pages, from a server on this machine or in one file that needs none.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "track/store.h"

namespace fk {

// Empty, or the sentence why this build has no pages.
std::string web_unavailable();

struct ServeOptions {
  std::string database;            // empty: the default one
  std::string host = "127.0.0.1";  // anything that is not this machine alone needs a token
  int port = 8765;                 // another is chosen where it is taken
  std::string token;               // for other hosts; drawn where empty
  std::function<void(const std::string& url)> ready = [](const std::string&) {};
};

// Serves until the process ends. Throws Error where no port can be had.
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

// The charts of a report, drawn by a browser without a window. Throws Error where there is none.
std::vector<ChartFile> draw_charts(const std::string& report_path, const std::string& run_id, bool png);

}  // namespace fk
