package searchsvc

import (
	"iter"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Texts and keywords are compared in a plain form: after NFKC and case folding, in
// simplified Chinese characters, without invisible characters and without the skin tones of
// emoji. Characters that only separate stay as they are. A `+` or `#` that is no part of a
// word stands apart from it; so `phone+email` becomes `phone + email`, while C++ and C# stay.

// Fold writes a text in the plain form. Texts mean the same in a search if their plain
// forms are equal.
func Fold(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	f := folder{text: s}
	for f.fill(foldChunk) {
		for _, r := range f.runes {
			b.WriteRune(r)
		}
		f.drop(len(f.runes))
	}
	return b.String()
}

// foldChunk is how many characters are folded at a time.
const foldChunk = 4096

// span is a part of a text, in bytes.
type span struct{ start, end int }

// folder writes the plain form of a text piece by piece.
type folder struct {
	text  string
	next  int  // where the next piece begins, in bytes
	bare  bool // words without their accents
	runes []rune
	spans []span // of the text: where each of the runes comes from

	word   int  // the length of the word that ends here
	letter bool // whether it begins with a letter
	unit   bool // a letter of an unspaced script, which keeps its marks, ends here
	last   rune
	held   []rune // signs behind that word, until it is known whether they belong to it
	holds  []span
}

// fill folds until there are n runes, and tells whether there are any. There are
// fewer than n at the end of the text only.
func (f *folder) fill(n int) bool {
	// Most texts have a rune in every two or three bytes.
	if more := min(n-len(f.runes), (len(f.text)-f.next)/2+1); more > 0 {
		f.runes, f.spans = slices.Grow(f.runes, more), slices.Grow(f.spans, more)
	}
	for len(f.runes) < n && f.next < len(f.text) {
		from := f.next
		end, r, more := nextPiece(f.text, from)
		f.next = end
		if r >= 0 {
			f.add(r, span{from, end})
			continue
		}
		for _, r := range more {
			f.add(r, span{from, end})
		}
	}
	if f.next >= len(f.text) {
		f.release(false)
	}
	return len(f.runes) > 0
}

// drop forgets the first n runes.
func (f *folder) drop(n int) {
	f.runes = f.runes[:copy(f.runes, f.runes[n:])]
	f.spans = f.spans[:copy(f.spans, f.spans[n:])]
}

// add takes the next character. A sign behind a word is held until it is known whether it belongs to
// the word.
func (f *folder) add(r rune, from span) {
	if r <= unicode.MaxASCII || !isIdeograph(r) {
		if isSign(r) && f.word > 0 {
			f.held, f.holds = append(f.held, r), append(f.holds, from)
			return
		}
		if unicode.IsMark(r) {
			// Marks count behind a letter or a digit only.
			if (f.word > 0 && len(f.held) == 0 || f.unit) && !unicode.Is(unicode.Me, r) {
				f.put(r, from)
			}
			return
		}
		if isWord(r) {
			f.unit = false
			f.release(true)
			if isSign(f.last) {
				f.put(' ', span{from.start, from.start})
			}
			if f.word++; f.word == 1 {
				f.letter = unicode.IsLetter(r)
			}
			f.put(r, from)
			return
		}
	}
	f.release(false)
	f.word, f.unit = 0, !isIdeograph(r) && KeepsMarks(r)
	f.put(r, from)
}

// release writes the signs that were held. They belong to the word if it ends with
// them, and otherwise if they are those of C++17 or of C#7.
func (f *folder) release(followed bool) {
	if len(f.held) == 0 {
		return
	}
	plus := len(f.held) > 1 && f.held[0] == '+' && f.held[1] == '+'
	sharp := len(f.held) == 1 && f.held[0] == '#' && f.word == 1 && f.letter
	if followed && !plus && !sharp {
		f.put(' ', span{f.holds[0].start, f.holds[0].start})
	}
	for i, sign := range f.held {
		f.put(sign, f.holds[i])
	}
	f.held, f.holds, f.word = f.held[:0], f.holds[:0], 0
}

func (f *folder) put(r rune, from span) {
	r = lowerASCII(r)
	f.last = r
	if f.bare && f.word > 0 {
		if bare, accented := bareRune(r); accented {
			for _, r := range bare {
				f.runes, f.spans = append(f.runes, r), append(f.spans, from)
			}
			return
		}
	}
	f.runes, f.spans = append(f.runes, r), append(f.spans, from)
}

func lowerASCII(r rune) rune {
	if 'A' <= r && r <= 'Z' {
		r += 'a' - 'A'
	}
	return r
}

func isSign(r rune) bool { return r == '+' || r == '#' }

// maxPiece bounds a piece, in bytes: a text may consist of accents only. The longest
// emoji has half of it.
const maxPiece = 64

// nextPiece returns where the piece of a text ends that begins at an offset, and its
// plain form: r, or, if that is negative, more. A piece is a character as people see
// it, or what NFKC joins, and is never cut.
func nextPiece(s string, at int) (end int, r rune, more string) {
	r, size := utf8.DecodeRuneInString(s[at:])
	end = at + size
	if r = plainOf(r); r >= 0 && size > 0 {
		if end == len(s) || s[end] >= ' ' && s[end] < 0x7F {
			return end, r, ""
		}
		if next, _ := utf8.DecodeRuneInString(s[end:]); plainOf(next) >= 0 {
			return end, r, ""
		}
	}
	end = clusterEnd(s, at)
	for end < len(s) && end-at < maxPiece {
		next := end
		for next < len(s) && next-at < maxPiece {
			r, size := utf8.DecodeRuneInString(s[next:])
			if !isInvisible(r) {
				break
			}
			next += size
		}
		if next == len(s) || startsAnew(s[next:]) {
			break
		}
		joined := clusterEnd(s, next)
		if before, after := foldPiece(s[at:end]), foldPiece(s[next:joined]); foldPiece(s[at:joined]) == before+after {
			break
		}
		end = joined
	}
	return end, -1, foldPiece(s[at:end])
}

// startsAnew tells whether NFKC never joins what a text begins with to what is before.
func startsAnew(s string) bool {
	p := norm.NFKC.PropertiesString(s)
	d := p.Decomposition()
	return p.BoundaryBefore() && (len(d) == 0 || norm.NFKC.Properties(d).BoundaryBefore())
}

// clusterEnd is the end of the grapheme cluster that begins at an offset.
func clusterEnd(s string, at int) int {
	end := min(len(s), at+maxPiece)
	for end < len(s) && end > at && !utf8.RuneStart(s[end]) {
		end--
	}
	cluster, _, _, _ := uniseg.FirstGraphemeClusterInString(s[at:end], -1)
	return at + len(cluster)
}

const zeroWidthJoiner = '\u200D'

// foldPiece writes a piece in the plain form, but for the case of ASCII letters.
func foldPiece(raw string) string {
	first, _ := utf8.DecodeRuneInString(raw)
	symbol := isSymbol(first)
	switch {
	case symbol && (first == '™' || first == '℠'):
		return string(first) // NFKC would make letters of them, which the word before would end with
	case strings.ContainsRune(raw, '\u20E3') && first == '#': // keycaps that are no digits
		return "♯"
	case strings.ContainsRune(raw, '\u20E3') && first == '*':
		return "✱"
	}
	visible := strings.Map(func(r rune) rune {
		switch {
		case symbol && (r == zeroWidthJoiner || isTag(r)): // which tell emoji apart
		case isInvisible(r), symbol && r != first && isSkinTone(r):
			return -1
		}
		return r
	}, raw)
	plain := caseFold(norm.NFKC.String(strings.TrimRight(visible, string(zeroWidthJoiner))))
	plain = strings.ReplaceAll(norm.NFKC.String(plain), "i\u0307", "i") // as İ
	if !symbol && plain != "" && !strings.ContainsFunc(plain, func(r rune) bool { _, ok := kindOf(r); return ok || isSign(r) }) {
		return visible
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\u2044': // of fractions
			return '/'
		case isInvisible(r) && !(symbol && (r == zeroWidthJoiner || isTag(r))):
			return -1
		}
		return r
	}, plain)
}

// caseFold folds the case of all but ASCII letters, writes Chinese characters in their
// simplified form, and takes the radicals that are characters by themselves for these.
func caseFold(s string) string {
	var b strings.Builder
	fold := cases.Fold()
	for _, r := range s {
		switch {
		case r <= unicode.MaxASCII, unicode.Is(unicode.Mn, r) && r != '\u0345': // which have no case
			b.WriteRune(r)
		case isIdeograph(r), unicode.Is(unicode.Han, r) && r >= firstHan:
			b.WriteRune(simplified(r))
		case unicode.Is(unicode.Cherokee, r): // whose capital letters came first: Unicode folds to them
			b.WriteRune(unicode.ToUpper(r))
		case r == 'İ', r == 'ı':
			b.WriteByte('i')
		case r >= 0x2E80 && r <= 0x2EFF && radicals[r] != 0:
			b.WriteRune(simplified(radicals[r]))
		default:
			b.WriteString(fold.String(string(r)))
		}
	}
	return b.String()
}

// radicals are those of the block CJK Radicals Supplement that NFKC leaves and that
// text copied from PDF files has in the place of characters (Unicode,
// EquivalentUnifiedIdeograph.txt).
var radicals = pairs("⺁厂⺇几⺌小⺎兀⺏尣⺒巳⺓幺⺛旡⺝月⺟母⺠民⺢氺⺥爫⺫罒⺬示⺮竹⺯糸⺰纟⺱罓⺲罒⺴罒⺶羊⺷羊⺹耂⺼月⻁虎⻂衤⻃覀⻄西⻅见⻆角⻇角⻈讠⻉贝⻋车⻌辶⻍辶⻏阝⻐钅⻑長⻒镸⻓长⻔门⻖阝⻗雨⻘青⻙韦⻚页⻛风⻜飞⻝食⻟飠⻠饣⻡𩠐⻢马⻣骨⻤鬼⻥鱼⻦鸟⻧卤⻨麦⻩黄⻪黾⻫斉⻬齐⻭歯⻮齿⻯竜⻰龙⻱龜⻲亀⻳龟")

func pairs(s string) map[rune]rune {
	all := map[rune]rune{}
	for pair := range slices.Chunk([]rune(s), 2) {
		all[pair[0]] = pair[1]
	}
	return all
}

// isInvisible tells whether a text looks the same without r: format and control
// characters but white space, variation selectors and the like, and the Arabic tatweel,
// which only stretches a word.
func isInvisible(r rune) bool {
	switch {
	case r <= unicode.MaxASCII:
		return r < ' ' && (r < '\t' || r > '\r') || r == 0x7F
	case isIdeograph(r), r == '\u0085':
		return false
	}
	return r == '\u0640' || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) &&
		!unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

func isSymbol(r rune) bool   { return r > unicode.MaxASCII && unicode.IsSymbol(r) }
func isSkinTone(r rune) bool { return r >= 0x1F3FB && r <= 0x1F3FF }
func isTag(r rune) bool      { return r >= 0xE0020 && r <= 0xE007F }
func isRegional(r rune) bool { return r >= 0x1F1E6 && r <= 0x1F1FF }

// plainOf is the plain form of a character that is a piece by itself between others of
// which that is true as well; -1 of all others.
func plainOf(r rune) rune {
	switch {
	case r <= unicode.MaxASCII:
		if r >= ' ' && r < 0x7F || r == '\n' || r == '\t' {
			return r
		}
		return -1
	case r < endOfTable:
		return plainTable()[r]
	case r >= firstHan && r < endOfHan:
		if to := simplifiedBlock[r-firstHan]; to != 0 {
			return to
		}
		return r
	case r >= 0xAC00 && r <= 0xD7A3:
		return r
	case r >= 0x20000 && r < 0x2F800:
		return simplified(r)
	case r >= firstWide && r <= 0xFFFF:
		return plainTable()[endOfTable+r-firstWide]
	}
	return -1
}

// The characters of which plainTable knows what they are: up to Bopomofo, and the
// half-width and full-width forms.
const (
	endOfTable = 0x3130
	firstWide  = 0xFF00
)

var plainTable = sync.OnceValue(func() []rune {
	table := make([]rune, 0, endOfTable+0x100)
	alone := func(r rune) rune {
		before, _, _, _ := uniseg.FirstGraphemeClusterInString("a"+string(r), -1)
		after, _, _, _ := uniseg.FirstGraphemeClusterInString(string(r)+"a", -1)
		plain := []rune(foldPiece(string(r)))
		if r <= unicode.MaxASCII || len(plain) != 1 || before != "a" || after != string(r) || r >= 0x1100 && r < 0x1200 ||
			unicode.IsMark(r) ||
			!startsAnew(string(r)) {
			return -1
		}
		return plain[0]
	}
	for r := rune(0); r < endOfTable; r++ {
		table = append(table, alone(r))
	}
	for r := rune(firstWide); r <= 0xFFFF; r++ {
		table = append(table, alone(r))
	}
	return table
})

// Token is a word, a symbol or one character of a run of a text in the plain form.
type Token struct {
	Kind PartKind
	Text string
	At   int // where it begins, in bytes
}

// Tokens are those of a text in the plain form.
func Tokens(plain string) iter.Seq[Token] {
	return func(yield func(Token) bool) {
		for at := 0; at < len(plain); {
			r, size := utf8.DecodeRuneInString(plain[at:])
			kind, ok := kindOf(r)
			if ok {
				more := extent{kind: kind, first: r}
				for at+size < len(plain) {
					next, n := utf8.DecodeRuneInString(plain[at+size:])
					if !more.takes(next) {
						break
					}
					size += n
				}
				if !yield(Token{kind, plain[at : at+size], at}) {
					return
				}
			}
			at += size
		}
	}
}

// kindOf is the kind of token that begins with a character; ok is false if it only
// separates.
func kindOf(r rune) (kind PartKind, ok bool) {
	switch {
	case InRun(r):
		return PartRun, true
	case isWord(r):
		return PartWord, true
	case isSymbol(r):
		return PartSymbol, true
	}
	return 0, false
}

// extent tells how far a token goes that begins with first.
type extent struct {
	kind  PartKind
	first rune
	ends  bool // what belongs to its end has come
	joins bool // something is joined to it
}

// takes tells whether the next character belongs to the token too: letters, digits and
// marks to a word, and then signs; to a character of a run its marks; to an emoji its tags and
// what is joined to it, and to a flag its second letter.
func (e *extent) takes(r rune) bool {
	switch {
	case e.kind == PartWord:
		e.ends = e.ends || isSign(r)
		return isSign(r) || !e.ends && isWord(r)
	case e.kind == PartRun:
		return KeepsMarks(e.first) && unicode.IsMark(r)
	case isRegional(e.first):
		taken := isRegional(r) && !e.ends
		e.ends = true
		return taken
	case r == zeroWidthJoiner, isTag(r):
		e.joins = r == zeroWidthJoiner
		return true
	}
	taken := e.joins && isSymbol(r)
	e.joins = false
	return taken
}

// HoldsRun tells whether a text in the plain form holds a run, with all marks of its last
// character.
func HoldsRun(plain, run string) bool {
	for {
		at := strings.Index(plain, run)
		if at < 0 {
			return false
		}
		plain = plain[at+len(run):]
		if r, _ := utf8.DecodeRuneInString(plain); !unicode.IsMark(r) {
			return true
		}
	}
}

// tokenEnd is the end of the token of a kind that begins at i.
func tokenEnd(runes []rune, i int, kind PartKind) int {
	more := extent{kind: kind, first: runes[i]}
	for i++; i < len(runes) && more.takes(runes[i]); i++ {
	}
	return i
}

// Components are the symbols that a symbol is made of, so that each of them finds it:
// none if it is one code point or a flag.
func Components(symbol string) []string {
	var all []string
	if utf8.RuneCountInString(symbol) < 2 {
		return nil
	}
	for _, r := range symbol {
		if isSymbol(r) && !isRegional(r) {
			all = append(all, string(r))
		}
	}
	return all
}
