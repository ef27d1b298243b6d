#include "track/time_text.h"

#include <charconv>
#include <chrono>
#include <cstdio>
#include <string>

#include "core/error.h"

namespace fk {
namespace {

constexpr int64_t kSecond = 1'000'000, kMinute = 60 * kSecond, kHour = 60 * kMinute, kDay = 24 * kHour;

}  // namespace

int64_t parse_since(std::string_view text, int64_t now_us) {
  if (text == "today") return now_us / kDay * kDay;
  if (text == "yesterday") return (now_us / kDay - 1) * kDay;
  int64_t age = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), age);
  if (status == std::errc() && end + 1 == text.data() + text.size() && age >= 0 && age < 100'000) {
    switch (*end) {
      case 's':
        return now_us - age * kSecond;
      case 'm':
        return now_us - age * kMinute;
      case 'h':
        return now_us - age * kHour;
      case 'd':
        return now_us - age * kDay;
      case 'w':
        return now_us - age * 7 * kDay;
      default:
        break;
    }
  }
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, used = 0;
  std::string copy(text);
  auto matches = [&](const char* format, int fields) {
    used = 0;
    hour = minute = second = 0;
    return std::sscanf(copy.c_str(), format, &year, &month, &day, &hour, &minute, &second, &used) == fields &&
           static_cast<size_t>(used) == copy.size();
  };
  auto date_only = [&] {
    used = 0;
    hour = minute = second = 0;
    return std::sscanf(copy.c_str(), "%4d-%2d-%2d%n", &year, &month, &day, &used) == 3 &&
           static_cast<size_t>(used) == copy.size();
  };
  auto to_minute = [&] {
    used = 0;
    second = 0;
    return std::sscanf(copy.c_str(), "%4d-%2d-%2d%*1[ T]%2d:%2d%n", &year, &month, &day, &hour, &minute, &used) == 5 &&
           static_cast<size_t>(used) == copy.size();
  };
  bool read = date_only() || to_minute() || matches("%4d-%2d-%2d%*1[ T]%2d:%2d:%2d%n", 6);
  std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                   std::chrono::day(static_cast<unsigned>(day))};
  if (!read || !date.ok() || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60)
    throw UsageError(
        "'{}' is no time; give 2026-11-15, '2026-11-15 07:32', today, yesterday or an age like 30m, 2h, 3d, 1w", text);
  return std::chrono::sys_days(date).time_since_epoch().count() * kDay + hour * kHour + minute * kMinute +
         second * kSecond;
}

}  // namespace fk
