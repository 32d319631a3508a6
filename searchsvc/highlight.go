package searchsvc

import (
	"html"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The markup around matched text (article search document, "Highlight markup
// rules"). Everything else in a highlight is HTML-escaped.
const (
	openTag  = `<b class="highlight">`
	closeTag = `</b>`
	ellipsis = "…"
)

// Lengths of an excerpt, in characters. It gets longer only to hold a match, or
// a character of several code points, as a whole.
const (
	excerptLength = 60
	excerptLead   = 20 // before the first match
)

// maxWord bounds the words of a text that are compared with those of a keyword,
// in characters.
const maxWord = MaxKeywords

// Highlighter marks the parts of a keyword in texts. It looks at the text
// itself, not at an engine's own snippets, so that every engine marks alike.
type Highlighter struct {
	anywhere map[rune][][]rune // CJK runs and symbols, by their first character
	begins   [256]bool         // the last bytes of those: most text is settled by them
	starts   [256]bool         // the same of everything that is looked for
	words    map[string]bool
	prefix   []rune // the last word
}

// NewHighlighter prepares to mark the parts of k and those words that the engine
// says it matched for other reasons: typing errors, accents.
func NewHighlighter(k Keyword, matched []string) *Highlighter {
	h := &Highlighter{anywhere: map[rune][][]rune{}, words: map[string]bool{}}
	for i, part := range k.Parts {
		text := []rune(foldString(part.Text))
		switch {
		case part.Kind != PartWord:
			h.anywhere[text[0]] = append(h.anywhere[text[0]], text)
			h.begins[byte(text[0])] = true
		case i == k.LastWord():
			h.prefix = text
		default:
			h.words[string(text)] = true
		}
	}
	for _, token := range matched {
		h.words[foldString(token)] = true
	}
	h.starts = h.begins
	if len(h.prefix) > 0 {
		h.starts[byte(h.prefix[0])] = true
	}
	for word := range h.words {
		r, _ := utf8.DecodeRuneInString(word)
		h.starts[byte(r)] = true
	}
	return h
}

// Name returns the whole title, escaped and marked.
func (h *Highlighter) Name(name string) string {
	runes := []rune(name)
	spans, _ := h.find(folded(runes), 0, len(runes))
	return render(runes, spans, 0, len(runes))
}

// Excerpt returns about 60 characters of a text around its first match, or of
// its beginning where nothing matches, escaped and marked, with … where it was
// cut. It never cuts a character in two.
func (h *Highlighter) Excerpt(text string) string {
	at := h.first(text)
	text, before := around(text, max(0, at))
	runes := []rune(text)
	plain := folded(runes)
	start, end := 0, min(len(runes), excerptLength)
	if at >= 0 {
		start = max(0, before-excerptLead)
		end = min(len(runes), start+excerptLength)
		start = max(0, end-excerptLength)
	}
	start = boundary(runes, start, -1)
	spans, end := h.find(plain, start, end)
	return render(runes, spans, start, boundary(runes, end, +1))
}

type span struct{ start, end int }

// An excerpt is made from the characters around its first match only: texts may be of
// megabytes.
const (
	lookBehind = excerptLength + maxCluster + 2
	lookAhead  = excerptLength + 2*(maxWord+1) + maxCluster + 2
)

// around returns the part of a text that an excerpt at an offset in bytes is made
// from, and how many characters of it stand before that.
func around(text string, at int) (part string, before int) {
	start := at
	for ; start > 0 && before < lookBehind; before++ {
		_, size := utf8.DecodeLastRuneInString(text[:start])
		start -= size
	}
	return text[start : at+skip(text[at:], lookAhead)], before
}

// skip is how many bytes the first n characters of a text have.
func skip(text string, n int) int {
	for i := range text {
		if n--; n < 0 {
			return i
		}
	}
	return len(text)
}

// first is the offset in bytes where the first match begins, -1 if there is none. Most
// characters begin none, and one look tells: a page may have fifty texts of megabytes.
func (h *Highlighter) first(text string) int {
	for at, r := range text {
		switch {
		case 'A' <= r && r <= 'Z':
			r += 'a' - 'A'
		case r > unicode.MaxASCII:
			r = fold(r)
		}
		if h.starts[byte(r)] && h.startsAt(text, at, r) {
			return at
		}
	}
	return -1
}

// startsAt tells whether a match begins at an offset, where the character that is r
// when it is folded stands: matchAt for a text that is not folded.
func (h *Highlighter) startsAt(text string, at int, r rune) bool {
	for _, part := range h.anywhere[r] {
		if foldsTo(text[at:], part) {
			return true
		}
	}
	if !isWord(r) {
		return false
	}
	if before, size := utf8.DecodeLastRuneInString(text[:at]); size > 0 && isWord(fold(before)) {
		return false
	}
	if len(h.prefix) > 0 && foldsTo(text[at:], h.prefix) {
		return true
	}
	if len(h.words) == 0 {
		return false
	}
	word := make([]rune, 0, 32)
	for _, r := range text[at:] {
		if r = fold(r); !isWord(r) || len(word) > maxWord {
			break
		}
		word = append(word, r)
	}
	return h.words[string(word)]
}

// foldsTo tells whether a text begins with this, once it is folded.
func foldsTo(text string, prefix []rune) bool {
	n := 0
	for _, r := range text {
		if n == len(prefix) || fold(r) != prefix[n] {
			break
		}
		n++
	}
	return n == len(prefix)
}

// find returns the matches that begin in [start,end), touching ones merged, and
// the end moved to where the last of them ends.
func (h *Highlighter) find(text []rune, start, end int) ([]span, int) {
	var spans []span
	reach := end
	for i := start; i < end; i++ {
		n := h.matchAt(text, i)
		if n == 0 {
			continue
		}
		reach = max(reach, i+n)
		if last := len(spans) - 1; last >= 0 && spans[last].end >= i {
			spans[last].end = max(spans[last].end, i+n)
		} else {
			spans = append(spans, span{i, i + n})
		}
	}
	return spans, reach
}

// matchAt is the length of the longest match that begins at i, 0 if none does.
func (h *Highlighter) matchAt(text []rune, i int) int {
	longest := 0
	if h.begins[byte(text[i])] {
		for _, part := range h.anywhere[text[i]] {
			if hasPrefix(text[i:], part) {
				longest = max(longest, len(part))
			}
		}
	}
	if isWord(text[i]) && (i == 0 || !isWord(text[i-1])) {
		if len(h.prefix) > 0 && hasPrefix(text[i:], h.prefix) {
			longest = max(longest, len(h.prefix))
		}
		if end := wordEnd(text, i); len(h.words) > 0 && h.words[string(text[i:end])] {
			longest = max(longest, end-i)
		}
	}
	return longest
}

// wordEnd is the end of the word at i, or somewhere in it if it is too long to
// be one that anybody looks for.
func wordEnd(text []rune, i int) int {
	return i + runEnd(text[i:min(len(text), i+maxWord+1)], 0, isWord)
}

func hasPrefix(text, prefix []rune) bool {
	return len(text) >= len(prefix) && slices.Equal(text[:len(prefix)], prefix)
}

func folded(runes []rune) []rune {
	out := make([]rune, len(runes))
	for i, r := range runes {
		out[i] = fold(r)
	}
	return out
}

// render writes runes[start:end] with its marks.
func render(runes []rune, spans []span, start, end int) string {
	var b strings.Builder
	if start > 0 {
		b.WriteString(ellipsis)
	}
	at := start
	for _, s := range spans {
		b.WriteString(html.EscapeString(string(runes[at:s.start])))
		b.WriteString(openTag)
		b.WriteString(html.EscapeString(string(runes[s.start:s.end])))
		b.WriteString(closeTag)
		at = s.end
	}
	b.WriteString(html.EscapeString(string(runes[at:end])))
	if end < len(runes) {
		b.WriteString(ellipsis)
	}
	return b.String()
}

// maxCluster bounds how far a cut is moved, in code points: a text may consist
// of accents only.
const maxCluster = 32

// boundary moves a cut in the direction of step until it stands between two
// characters as people see them: not before an accent or a variation selector,
// not inside an emoji of several code points, not inside a line break.
func boundary(runes []rune, cut, step int) int {
	for at, steps := cut, 0; steps <= maxCluster; at, steps = at+step, steps+1 {
		if at <= 0 || at >= len(runes) || !joined(runes[at-1], runes[at]) {
			return at
		}
	}
	return cut
}

const zeroWidthJoiner = '\u200D'

func joined(a, b rune) bool {
	return unicode.IsMark(b) || a == zeroWidthJoiner || b == zeroWidthJoiner ||
		b >= 0x1F3FB && b <= 0x1F3FF || // skin tones
		a == '\r' && b == '\n'
}
