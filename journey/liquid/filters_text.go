package liquid

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// withText makes a filter of a text and the arguments of the filter, which takes some
// eight times as long as looking at the text.
func withText(do func(s string, a []any) string) filterFunc {
	return func(r *run, v any, a []any) any {
		s := r.text(v)
		r.spend(textWork * len(s))
		return do(s, a)
	}
}

// onText is withText without arguments.
func onText(do func(s string) string) filterFunc {
	return withText(func(s string, _ []any) string { return do(s) })
}

// slowly accounts for a filter that takes some forty times as long as looking at the
// value.
func slowly(do filterFunc) filterFunc {
	return func(r *run, v any, a []any) any {
		r.spend(40 * sizeOf(v, r.budget.work))
		return do(r, v, a)
	}
}

func strip(s string) string { return strings.Trim(s, space) }

func lstrip(s string) string { return strings.TrimLeft(s, space) }

func rstrip(s string) string { return strings.TrimRight(s, space) }

// upcase and downcase map letters as Unicode has it in full: ß is SS, ﬁ is FI. A Caser is
// not for several goroutines.
func upcase(s string) string { return cases.Upper(language.Und).String(s) }

func downcase(s string) string { return cases.Lower(language.Und).String(s) }

// capitalize looks at the whole text for the rest, too: a Σ at the end of a word is ς.
func capitalize(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	first := s[:n]
	return cases.Title(language.Und).String(first) + strings.TrimPrefix(downcase(s), downcase(first))
}

var (
	withoutNewlines = strings.NewReplacer("\r\n", "", "\n", "")
	withBreaks      = strings.NewReplacer("\r\n", "<br />\n", "\n", "<br />\n")
	html            = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")
)

// escapeOnce takes what is escaped already, such as &lt; and &#39;, as it is.
func escapeOnce(s string) string {
	var b strings.Builder
	for {
		at := strings.IndexByte(s, '&')
		if at < 0 {
			b.WriteString(html.Replace(s))
			return b.String()
		}
		b.WriteString(html.Replace(s[:at]))
		n := entity(s[at:])
		if n == 0 {
			b.WriteString("&amp;")
			n = 1
		} else {
			b.WriteString(s[at : at+n])
		}
		s = s[at+n:]
	}
}

// entity is the length of the entity that a text, which begins with &, begins with; 0 if
// there is none.
func entity(s string) int {
	name := func(r rune) bool { return r < 'A' || r > 'Z' && r < 'a' || r > 'z' }
	from := 1
	if strings.HasPrefix(s, "&#") {
		from, name = 2, func(r rune) bool { return r < '0' || r > '9' }
	}
	if n := strings.IndexFunc(s[from:], name); n > 0 && s[from+n] == ';' {
		return from + n + 1
	}
	return 0
}

// stripHTML takes out scripts, comments and styles with what is in them, and then
// all other tags.
func stripHTML(s string) string {
	for _, block := range [][2]string{{"<script", "</script>"}, {"<!--", "-->"}, {"<style", "</style>"}, {"<", ">"}} {
		s = stripBlocks(s, block[0], block[1])
	}
	return s
}

func stripBlocks(s, from, to string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, from)
		_, after, ends := strings.Cut(rest, to)
		if !found || !ends {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(before)
		s = after
	}
}

var percent = regexp.MustCompile(`%[0-9a-fA-F]{2}`)

// urlDecode leaves a % that encodes nothing as it is.
func urlDecode(s string) string {
	return toValid(percent.ReplaceAllStringFunc(strings.ReplaceAll(s, "+", " "), func(found string) string {
		out, _ := url.PathUnescape(found)
		return out
	}))
}

func base64Encode(encoding *base64.Encoding) filterFunc {
	return onText(func(s string) string { return encoding.EncodeToString([]byte(s)) })
}

// base64Decode makes a filter that ignores what trim holds at the end of the text.
func base64Decode(encoding *base64.Encoding, trim string) filterFunc {
	encoding = encoding.Strict()
	return func(r *run, v any, _ []any) any {
		if v == nil {
			return ""
		}
		s, ok := v.(string)
		out, err := encoding.DecodeString(strings.TrimRight(s, trim))
		if !ok || err != nil || strings.ContainsAny(s, "\r\n") { // the decoder skips line breaks
			r.fail("a value is not base64")
		}
		return toValid(string(out))
	}
}

// occurrence says which of the parts of a text are replaced.
type occurrence int

const (
	allOfThem occurrence = iota
	theFirst
	theLast
)

// replacer makes replace and remove. The length is known before anything is built.
func replacer(which occurrence) filterFunc {
	return func(r *run, v any, a []any) any {
		s, from, to := textOf(v), textOf(a[0]), ""
		r.spend(2 * textWork * len(s))
		if len(a) > 1 {
			to = textOf(a[1])
		}
		found := min(1, strings.Count(s, from))
		if which == allOfThem {
			found = strings.Count(s, from)
		}
		if len(s)+found*(len(to)-len(from)) > maxString {
			r.fail(errString)
		}
		if at := strings.LastIndex(s, from); which == theLast && at >= 0 {
			return s[:at] + to + s[at+len(from):]
		}
		if which == theFirst {
			return strings.Replace(s, from, to, 1)
		}
		return strings.ReplaceAll(s, from, to)
	}
}

func slice(r *run, v any, a []any) any {
	from, count := a[0].(int), 1
	if len(a) > 1 && a[1] != nil {
		count = a[1].(int)
	}
	if l, ok := v.([]any); ok {
		from, to := cut(len(l), from, count)
		return slices.Clone(l[from:to])
	}
	s := textOf(v)
	r.spend(textWork * len(s))
	runes := []rune(s)
	from, to := cut(len(runes), from, count)
	return string(runes[from:to])
}

// cut reads an offset, from the end if negative, and a number of elements.
func cut(length, from, count int) (begin, end int) {
	if from < 0 {
		from += length
	}
	if from < 0 || from > length || count < 0 {
		return 0, 0
	}
	return from, from + min(count, length-from)
}

// ellipsis is what stands for the part of a text that is cut off.
func ellipsis(a []any) string {
	if len(a) > 1 {
		return textOf(a[1])
	}
	return "..."
}

// truncate cuts a text to a number of characters, the ellipsis included.
func truncate(s string, a []any) string {
	n := 50
	if len(a) > 0 {
		n = a[0].(int)
	}
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return string(runes[:min(len(runes), max(0, n-utf8.RuneCountInString(ellipsis(a))))]) + ellipsis(a)
}

func truncateWords(s string, a []any) string {
	n := 15
	if len(a) > 0 {
		n = max(1, a[0].(int))
	}
	words := strings.Fields(s)
	if len(words) <= n {
		return s
	}
	return strings.Join(words[:n], " ") + ellipsis(a)
}

// split at a space is one at white space of any length.
func split(r *run, v any, a []any) any {
	s, separator := textOf(v), textOf(a[0])
	r.spend(textWork * len(s))
	if strings.Count(s, separator) > maxListLength {
		r.fail(errList)
	}
	var parts []string
	if separator == " " {
		parts = strings.Fields(s)
	} else {
		parts = strings.Split(s, separator)
	}
	for len(parts) > 0 && parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	out := make([]any, len(parts))
	for i, part := range parts {
		out[i] = part
	}
	return out
}
