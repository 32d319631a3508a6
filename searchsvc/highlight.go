package searchsvc

import (
	"html"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The markup around matched text (docs/contract.md, "Highlights"). Everything else in a
// highlight is HTML-escaped.
const (
	openTag  = `<b class="highlight">`
	closeTag = `</b>`
	ellipsis = "…"
)

// Lengths of an excerpt, in code points. It gets longer only to hold a match, or
// a character of several code points, as a whole.
const (
	excerptLength = 60
	excerptLead   = 20 // before the first match
)

// maxWord bounds the words of a text that are compared with those of a keyword,
// in characters.
const maxWord = MaxKeywords

// Highlighter marks the parts of a keyword in texts, one after the other. It looks at the text
// itself, not at an engine's own snippets, so that every engine marks alike.
type Highlighter struct {
	runs    map[rune][][]rune // by their first character
	symbols map[string]bool
	words   map[string]bool
	prefix  []rune    // the last word
	starts  [256]bool // the last bytes of what matches begin with: most text is settled by them
	reach   int       // the longest match, in characters
	buffer  folder    // of the text before: its memory is used again
}

// fold begins to fold a text at an offset.
func (h *Highlighter) fold(text string, at int) *folder {
	h.buffer = folder{text: text, next: at, bare: true, runes: h.buffer.runes[:0], spans: h.buffer.spans[:0]}
	return &h.buffer
}

// NewHighlighter prepares to mark the parts of k, and those words that the engine says it
// matched because of typing errors.
func NewHighlighter(k Keyword, matched []string) *Highlighter {
	h := &Highlighter{runs: map[rune][][]rune{}, symbols: map[string]bool{}, words: map[string]bool{}, reach: maxWord}
	for i, part := range k.Parts {
		text := []rune(part.Sought())
		switch {
		case part.Kind == PartRun:
			h.runs[text[0]] = append(h.runs[text[0]], text)
		case part.Kind == PartSymbol:
			h.symbols[string(text)] = true
		case i == k.LastWord():
			h.prefix = text
		default:
			h.words[string(text)] = true
		}
		h.starts[byte(text[0])] = true
		h.reach = max(h.reach, len(text))
	}
	for _, token := range matched {
		if token = Bare(Fold(token)); token != "" {
			r, _ := utf8.DecodeRuneInString(token)
			h.words[token], h.starts[byte(r)] = true, true
		}
	}
	return h
}

// Name returns the whole title, escaped and marked.
func (h *Highlighter) Name(name string) string {
	f := h.fold(name, 0)
	f.fill(math.MaxInt)
	marks, _ := h.find(f, 0, len(name))
	return render(name, marks, 0, len(name))
}

// Excerpt returns about 60 characters of a text around its first match, or of
// its beginning where nothing matches, escaped and marked, with … where it was
// cut. It never cuts a character in two.
func (h *Highlighter) Excerpt(text string) string {
	from, at := h.first(text)
	start, end := window(text, from, at)
	f := h.fold(text, from)
	for f.fill(len(f.runes)+h.reach) && f.next < len(text) && f.spans[max(0, len(f.runes)-h.reach)].start < end {
	}
	marks, end := h.find(f, start, end)
	return render(text, marks, start, end)
}

// window is the part of a text that an excerpt shows whose first match begins at an
// offset, -1 if there is none. from is where a piece begins before it, far enough.
func window(text string, from, at int) (start, end int) {
	type place struct{ at, runes int } // where a piece begins, and how many code points are before
	places, runes, before := []place{{from, 0}}, 0, 0
	for next := from; next < len(text) && (next <= at || runes <= before+excerptLength); {
		if next == at {
			before = runes
		}
		end, _, _ := nextPiece(text, next)
		runes += utf8.RuneCountInString(text[next:end])
		next = end
		places = append(places, place{next, runes})
	}
	first := max(0, before-excerptLead)
	last := min(runes, first+excerptLength)
	first = max(0, last-excerptLength)
	for _, p := range places {
		if p.runes <= first {
			start = p.at
		}
		if end = p.at; p.runes >= last {
			break
		}
	}
	return start, end
}

// lookBehind is how many characters in the plain form are kept before what is looked
// at: an excerpt may begin there.
const lookBehind = 256

// first is the offset where the first match begins, -1 if there is none, and that of a
// piece before it. Most characters begin no match, and one look tells: a page may have
// fifty texts of megabytes.
func (h *Highlighter) first(text string) (from, at int) {
	f := h.fold(text, 0)
	for i := 0; ; {
		f.fill(i + h.reach + foldChunk)
		limit := len(f.runes)
		if f.next < len(text) {
			limit -= h.reach
		}
		for i < limit {
			n := step(f.runes, i)
			if (n > 1 || h.starts[byte(f.runes[i])]) && h.matchAt(f.runes, i, n) > 0 {
				if i >= lookBehind {
					from = f.spans[i-lookBehind].start
				}
				return from, f.spans[i].start
			}
			i += n
		}
		if f.next >= len(text) && limit == len(f.runes) {
			return 0, -1
		}
		if i > lookBehind {
			f.drop(i - lookBehind)
			i = lookBehind
		}
	}
}

// find returns the matches that begin in [start,end) of the text, touching ones merged,
// and the end moved to where the last of them ends.
func (h *Highlighter) find(f *folder, start, end int) ([]span, int) {
	var marks []span
	last, reach := -1, end // last is where the last match ended in the plain form
	for i, n := 0, 0; i < len(f.runes) && f.spans[i].start < end; i += n {
		n = step(f.runes, i)
		from := f.spans[i].start
		length := h.matchAt(f.runes, i, n)
		if length == 0 || from < start {
			continue
		}
		to := f.spans[i+length-1].end
		reach = max(reach, to)
		if m := len(marks) - 1; m >= 0 && (last >= i || marks[m].end >= from) {
			marks[m].end = max(marks[m].end, to)
		} else {
			marks = append(marks, span{from, to})
		}
		last = max(last, i+length)
	}
	return marks, reach
}

// step is the length of what begins at i: of an emoji of several code points, or 1.
func step(text []rune, i int) int {
	if i+1 < len(text) && (isRegional(text[i]) || text[i+1] == zeroWidthJoiner || isTag(text[i+1])) {
		return tokenEnd(text, i, PartSymbol) - i
	}
	return 1
}

// matchAt is the length of the longest match that begins at i, 0 if none does. n is
// the step there.
func (h *Highlighter) matchAt(text []rune, i, n int) int {
	longest := 0
	for _, run := range h.runs[text[i]] {
		// A character is found with all of its marks only.
		if end := i + len(run); hasPrefix(text[i:], run) && (end == len(text) || !unicode.IsMark(text[end])) {
			longest = max(longest, len(run))
		}
	}
	if len(h.symbols) > 0 && h.isSymbol(text[i:i+n]) {
		longest = max(longest, n)
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

// isSymbol tells whether a symbol is looked for, or one of those that an emoji is
// made of.
func (h *Highlighter) isSymbol(text []rune) bool {
	return h.symbols[string(text)] || slices.ContainsFunc(Components(string(text)), func(c string) bool { return h.symbols[c] })
}

// wordEnd is the end of the word at i, or somewhere in it if it is too long to
// be one that anybody looks for.
func wordEnd(text []rune, i int) int {
	return tokenEnd(text[:min(len(text), i+maxWord+1)], i, PartWord)
}

func hasPrefix(text, prefix []rune) bool {
	return len(text) >= len(prefix) && slices.Equal(text[:len(prefix)], prefix)
}

// render writes text[start:end] with its marks.
func render(text string, marks []span, start, end int) string {
	var b strings.Builder
	// Each byte that is not UTF-8 becomes a U+FFFD.
	plain := func(from, to int) { b.WriteString(html.EscapeString(string([]rune(text[from:to])))) }
	if start > 0 {
		b.WriteString(ellipsis)
	}
	at := start
	for _, m := range marks {
		plain(at, m.start)
		b.WriteString(openTag)
		plain(m.start, m.end)
		b.WriteString(closeTag)
		at = m.end
	}
	plain(at, end)
	if end < len(text) {
		b.WriteString(ellipsis)
	}
	return b.String()
}
