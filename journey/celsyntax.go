package journey

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"waypost"
)

// slip is what people write in a condition that is no CEL, as word processors, other languages and
// input methods have it: where, and what to write instead.
type slip struct {
	at  int // of the runes
	why string
}

// slipsIn lists the first slips of a condition that does not parse.
func slipsIn(source string) error {
	runes := []rune(source)
	var found []string
	for at := 0; at < len(runes) && len(found) < 3; {
		next, s := slipAt(runes, at)
		if s != nil {
			line, column := 1, 1
			for _, r := range runes[:s.at] {
				if column++; r == '\n' {
					line, column = line+1, 1
				}
			}
			found = append(found, fmt.Sprintf("line %d, column %d: %s", line, column, s.why))
		}
		at = next
	}
	if len(found) == 0 {
		return nil
	}
	return errors.New(strings.Join(found, "; "))
}

// slipAt looks at one text, comment, word or sign. next is where the next one begins.
func slipAt(runes []rune, at int) (next int, found *slip) {
	r := runes[at]
	rest := string(runes[at:min(len(runes), at+3)])
	switch {
	case strings.HasPrefix(rest, "//"):
		for at < len(runes) && runes[at] != '\n' {
			at++
		}
		return at, nil
	case r == '"' || r == '\'':
		return textAt(runes, at)
	case strings.ContainsRune(typedQuotes, r):
		end := at + 1
		for end < len(runes) && !strings.ContainsRune(typedQuotes, runes[end]) {
			end++
		}
		if end < len(runes) {
			end++
		}
		return end, &slip{at, fmt.Sprintf(`%c is a quote of word processors: write "…" or '…'`, r)}
	case 0xFF01 <= r && r <= 0xFF5E && !isWord(r-0xFEE0), r == '。', r == '、':
		plain := map[rune]rune{'。': '.', '、': ','}[r]
		if plain == 0 {
			plain = r - 0xFEE0
		}
		return at + 1, &slip{at, fmt.Sprintf("%c is a full-width sign: write %c", r, plain)}
	case r > unicode.MaxASCII && (unicode.IsSpace(r) || unicode.Is(unicode.Cf, r)):
		return at + 1, &slip{at, fmt.Sprintf("a blank that is not allowed here (U+%04X): write a usual one", r)}
	case isLetter(r):
		return wordAt(runes, at)
	}
	return signAt(runes, at)
}

// wordAt looks at one word: an operator of another language, or a name with letters that CEL's names have not.
func wordAt(runes []rune, at int) (next int, found *slip) {
	end := at
	for end < len(runes) && isLetter(runes[end]) {
		end++
	}
	word, member := string(runes[at:end]), at > 0 && runes[at-1] == '.'
	switch {
	case strings.ContainsFunc(word, func(r rune) bool { return r > unicode.MaxASCII }):
		quoted := strconv.Quote(waypost.Clip(word, 64))
		if member {
			return end, &slip{at - 1, fmt.Sprintf("a name with other letters than A to Z stands in brackets: write [%s] in the place of .%s", quoted, waypost.Clip(word, 64))}
		}
		return end, &slip{at, "a text stands in quotes: write " + quoted}
	case member, end < len(runes) && runes[end] == '.':
		return end, nil
	case strings.EqualFold(word, "is"):
		if rest, negated := cutWord(runes, end, "not"); negated {
			return rest, &slip{at, "write != in the place of " + string(runes[at:rest])}
		}
		return end, &slip{at, "write == in the place of " + word}
	}
	for _, s := range words {
		if strings.EqualFold(word, s.wrong) {
			return end, &slip{at, fmt.Sprintf("write %s in the place of %s", s.right, word)}
		}
	}
	return end, nil
}

// words are operators of other languages.
var words = []struct{ wrong, right string }{
	{"and", "&&"}, {"or", "||"}, {"not", "!"}, {"like", `.startsWith("…") or .contains("…")`}, {"contains", `.contains("…")`},
	{"between", "5 <= x && x <= 9"}, {"then", "? … : …"},
}

// cutWord passes over blanks and a word behind them.
func cutWord(runes []rune, at int, word string) (next int, ok bool) {
	for at < len(runes) && unicode.IsSpace(runes[at]) {
		at++
	}
	end := at
	for end < len(runes) && isLetter(runes[end]) {
		end++
	}
	return end, strings.EqualFold(string(runes[at:end]), word)
}

// isLetter tells whether a rune can belong to a name, in whatever language.
func isLetter(r rune) bool {
	return isWord(r) || r > unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Mc, r))
}

const typedQuotes = "“”„‟‘’‚‛«»‹›「」『』"

func isWord(r rune) bool {
	return r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

// textAt passes over a text. One that goes on behind its end has a quote in it.
func textAt(runes []rune, at int) (next int, found *slip) {
	quote := runes[at]
	raw := at > 0 && (runes[at-1] == 'r' || runes[at-1] == 'R') && (at < 2 || !isWord(runes[at-2]))
	if mark := strings.Repeat(string(quote), 3); strings.HasPrefix(string(runes[at:min(len(runes), at+3)]), mark) {
		if _, after, closed := strings.Cut(string(runes[at+3:]), mark); closed {
			return len(runes) - len([]rune(after)), nil
		}
		return len(runes), &slip{at, "a text that begins with " + mark + " does not end"}
	}
	end := at + 1
	for ; end < len(runes) && runes[end] != quote && runes[end] != '\n'; end++ {
		if runes[end] == '\\' && !raw {
			end++
		}
	}
	if end >= len(runes) || runes[end] != quote {
		return len(runes), &slip{at, fmt.Sprintf("a text that begins with %c does not end", quote)}
	}
	if end+1 >= len(runes) || !unicode.IsLetter(runes[end+1]) {
		return end + 1, nil
	}
	whole := end + 1
	for whole < len(runes) && (runes[whole] != quote || whole+1 < len(runes) && (runes[whole+1] == quote || unicode.IsLetter(runes[whole+1]))) {
		whole++
	}
	if whole == len(runes) || runes[end+1] == 'i' && strings.HasPrefix(string(runes[end+1:min(len(runes), end+4)]), "in ") {
		return end + 1, nil
	}
	other := map[rune]string{'\'': `"`, '"': `'`}[quote]
	text := string(runes[at+1 : whole])
	if strings.Contains(text, other) {
		text = strings.ReplaceAll(text, string(quote), `\`+string(quote))
		other = string(quote)
	}
	return whole + 1, &slip{at, fmt.Sprintf("the text ends at the %c within it: write %s%s%s", quote, other, text, other)}
}

// signs are operators of other languages.
var signs = []struct{ wrong, why string }{
	{"===", "equality is written =="}, {"!==", "inequality is written !="}, {"<>", "inequality is written !="},
	{"=>", "write >= in the place of =>"}, {"=<", "write <= in the place of =<"},
}

func signAt(runes []rune, at int) (next int, found *slip) {
	rest := string(runes[at:min(len(runes), at+3)])
	for _, s := range signs {
		if strings.HasPrefix(rest, s.wrong) {
			return at + len(s.wrong), &slip{at, s.why}
		}
	}
	for _, right := range []string{"==", "!=", "<=", ">=", "&&", "||"} {
		if strings.HasPrefix(rest, right) {
			return at + 2, nil
		}
	}
	switch runes[at] {
	case '=':
		return at + 1, &slip{at, "equality is written =="}
	case '&':
		return at + 1, &slip{at, "and is written &&"}
	case '|':
		return at + 1, &slip{at, "or is written ||"}
	}
	return at + 1, nil
}

// otherNames are names of other languages for what CEL has.
var otherNames = map[string]string{
	"not": "!", "and": "&&", "or": "||", "true": "true", "false": "false", "null": "null", "nil": "null", "none": "null", "undefined": "null",
}

var (
	undeclared = regexp.MustCompile(`^undeclared reference to '(\w+)'`)
	called     = regexp.MustCompile(`^found no matching overload for '(\w+)' applied to '\(`)
	hyphened   = regexp.MustCompile(`([\w.]+)\.(\w+)-$`)
)

// methods are functions that stand behind the value that they are asked of.
const methods = " lower upper lowerAscii upperAscii trim contains startsWith endsWith split replace substring charAt indexOf lastIndexOf join reverse "

// eventKnown says where conditions and templates have an event.
const eventKnown = "event is known in the condition of a waitForEvent, of an entry and of a goal only"

// instead is what to write for what there is not, before being the line up to it; "" if that is not known.
func instead(message, before string) string {
	if m := called.FindStringSubmatch(message); m != nil && strings.Contains(methods, " "+m[1]+" ") {
		return fmt.Sprintf("%s stands behind its value: write lead.name.%[1]s(…)", m[1])
	}
	m := undeclared.FindStringSubmatch(message)
	if m == nil {
		return ""
	}
	if h := hyphened.FindStringSubmatch(before); h != nil {
		return fmt.Sprintf("a name with a hyphen stands in brackets: write %s[%q]", h[1], h[2]+"-"+m[1])
	}
	switch name := strings.ToLower(m[1]); {
	case m[1] == varEvent:
		return eventKnown + `; write events("purchase", duration("P30D")).last().amount of the last one of a name, or ` +
			"enrollment.event.properties.amount of the one that an enrollment began by"
	case otherNames[name] != "":
		return fmt.Sprintf("write %s in the place of %s", otherNames[name], m[1])
	case strings.Contains(methods, " "+m[1]+" "):
		return fmt.Sprintf("%s stands behind its value: write lead.name.%[1]s(…)", m[1])
	}
	return ""
}

// unlike are operators whose sides are of different types.
var unlike = regexp.MustCompile(`^found no matching overload for '_(==|!=|<|<=|>|>=)_' applied to '\((double|string|bool|timestamp|duration), (double|string|bool|timestamp|duration)\)'$`)

// kinds are the words for types, with an example of a value.
var kinds = map[string]string{
	"double": "a number (5)", "string": `a text ("5")`, "bool": "true or false", "timestamp": `a time (timestamp("2026-01-31"))`, "duration": `a length of time (duration("72h"))`,
}

// unlikeSides says which types a comparison has on its sides; "" of another message.
func unlikeSides(message string) string {
	m := unlike.FindStringSubmatch(message)
	if m == nil {
		return ""
	}
	return fmt.Sprintf("%s has %s on its left and %s on its right: both must be of one type", m[1], kinds[m[2]], kinds[m[3]])
}
