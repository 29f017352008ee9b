// Writes what a parser of llama-server's arguments understood, as JSON: one key per field.
//
// The fields themselves are in fields.h, which fields.py writes from the parser's own header:
// `each(visit, name, value)` calls `visit` for every field of a struct.
#pragma once

#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

inline std::string quoted(const std::string & text) {
    std::string out = "\"";
    for (const unsigned char c : text) {
        char code[8];
        if (c == '"' || c == '\\') {
            out += '\\';
            out += (char) c;
        } else if (c < 0x20 || c >= 0x80) {
            // Each byte for itself: a value need not be UTF-8.
            snprintf(code, sizeof(code), "\\u%04x", c);
            out += code;
        } else {
            out += (char) c;
        }
    }
    return out + '"';
}

// Values that neither header nor standard describe; the including file may overload it.
inline std::string json(const std::string & value) { return quoted(value); }
inline std::string json(const char * value) { return value ? quoted(value) : "null"; }

template <class T> std::enable_if_t<std::is_arithmetic_v<T>, std::string> json(T value) {
    if constexpr (std::is_same_v<T, bool>) {
        return value ? "true" : "false";
    }
    std::ostringstream out;
    out.precision(std::is_same_v<T, float> ? 6 : 12);
    out << +value;
    const auto text = out.str();
    return text.find_first_of("in") == std::string::npos ? text : quoted(text);
}

template <class T> std::enable_if_t<std::is_enum_v<T>, std::string> json(T value) {
    return std::to_string((long long) value);
}

template <class T> struct is_list : std::false_type {};
template <class T> struct is_list<std::vector<T>> : std::true_type {};
template <class T> struct is_list<std::set<T>> : std::true_type {};
template <class T> struct is_optional : std::false_type {};
template <class T> struct is_optional<std::optional<T>> : std::true_type {};
template <class T> struct is_pairs : std::false_type {};
template <class A, class B> struct is_pairs<std::map<A, B>> : std::true_type {};

struct Writer;
template <class T>
concept Described = requires(Writer & writer, const std::string & name, const T & value) {
    each(writer, name, value);
};
template <class T>
concept Plain = requires(const T & value) { json(value); };

template <class T> std::string written(const T & value);

// Collects the fields of nested structs under dotted names.
struct Writer {
    std::string out;

    template <class T> void operator()(const std::string & name, const T & value) {
        if constexpr (Described<T>) {
            each(*this, name + ".", value);
        } else if (const auto text = written(value); !text.empty()) {
            out += (out.empty() ? "" : ",") + quoted(name) + ":" + text;
        }
    }
};

// One value; empty where it is a pointer or a function, which no argument sets.
template <class T> std::string written(const T & value) {
    if constexpr (Plain<T>) {
        return json(value);
    } else if constexpr (std::is_pointer_v<T>) {
        return "";
    } else if constexpr (Described<T>) {
        Writer fields;
        each(fields, "", value);
        return "{" + fields.out + "}";
    } else if constexpr (is_optional<T>::value) {
        return value ? written(*value) : "null";
    } else if constexpr (is_list<T>::value || std::is_array_v<T>) {
        std::string items;
        for (const auto & item : value) {
            items += (items.empty() ? "" : ",") + written(item);
        }
        return "[" + items + "]";
    } else if constexpr (is_pairs<T>::value) {
        std::string items;
        for (const auto & [key, item] : value) {
            items += (items.empty() ? "" : ",") + quoted(key) + ":" + written(item);
        }
        return "{" + items + "}";
    } else {
        return "";
    }
}

template <class T, class B> std::string written(const std::pair<T, B> & value) {
    return "[" + written(value.first) + "," + written(value.second) + "]";
}

template <class T> void print_fields(const T & value) {
    Writer fields;
    each(fields, "", value);
    printf("{%s}\n", fields.out.c_str());
}
