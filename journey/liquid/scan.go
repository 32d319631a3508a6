package liquid

import (
	"fmt"
	"regexp"
	"strings"

	"waypost"
)

// fault is why a source does not compile; parsing panics with it.
type fault struct {
	at   int // offset in the source
	text string
}

func failAt(at int, format string, args ...any) {
	panic(fault{at, fmt.Sprintf(format, args...)})
}

// piece is a part of a source: text, an output or a tag.
type piece struct {
	kind pieceKind
	at   int    // where it begins
	name string // of a tag
	// from and to bound the text, the expression of an output, or what follows the
	// name of a tag.
	from, to int
}

type pieceKind int

const (
	textPiece pieceKind = iota
	outputPiece
	tagPiece
)

// space is what - at the edge of a tag takes away.
const space = " \t\n\v\f\r\x00"

var (
	opening = regexp.MustCompile(`\{[{%]`)
	tagName = regexp.MustCompile(`^\s*(#|\w+)`)
	// rawEnds find the ends of the blocks whose content is not looked at.
	rawEnds = map[string]*regexp.Regexp{
		"raw": regexp.MustCompile(`\{%-?\s*endraw\s*(-?)%\}`),
		"doc": regexp.MustCompile(`\{%-?\s*enddoc\s*(-?)%\}`),
	}
)

// scan takes the source apart. Comments are left out, and raw blocks become text.
func (p *parser) scan() []piece {
	s := scanner{parser: p}
	for {
		x, found := s.next()
		if !found {
			break
		}
		switch {
		case s.in.take(x):
		case rawEnds[x.name] != nil:
			s.skipRaw(x)
		case s.in.depth == 0:
			s.out = append(s.out, x)
		}
	}
	s.in.finish()
	s.text(len(p.source), false)
	return s.out
}

// scanner is a position in a source, and the pieces before it.
type scanner struct {
	*parser
	out  []piece
	pos  int
	trim bool // the piece before pos ends with -
	in   comments
}

// text adds the text from pos to an offset; trimRight says that a piece with - follows.
func (s *scanner) text(to int, trimRight bool) {
	from := s.pos
	if s.trim {
		from = to - len(strings.TrimLeft(s.source[from:to], space))
	}
	if trimRight {
		to = from + len(strings.TrimRight(s.source[from:to], space))
	}
	if from < to {
		s.out = append(s.out, piece{kind: textPiece, at: from, from: from, to: to})
	}
}

// next finds the next output or tag, adds the text before it unless that is a comment, and
// leaves pos behind it. It panics with a fault if the output or tag does not end.
func (s *scanner) next() (x piece, found bool) {
	open := opening.FindStringIndex(s.source[s.pos:])
	if open == nil {
		return piece{}, false
	}
	if x, found = s.bounds(s.pos + open[0]); !found {
		return piece{}, false
	}
	left := strings.HasPrefix(s.source[x.from:x.to], "-")
	if left {
		x.from++
	}
	if s.in.depth == 0 {
		s.text(x.at, left)
	}
	s.pos = x.to + 2
	s.trim = s.source[x.to-1] == '-' // also of {{-}}
	if s.trim && x.from < x.to {
		x.to--
	}
	if x.kind == tagPiece {
		s.nameTag(&x, s.in.depth > 0)
	}
	return x, true
}

// bounds finds where the output or tag ends that begins at an offset. In a comment it need
// not end; elsewhere bounds panics with a fault.
func (s *scanner) bounds(at int) (x piece, found bool) {
	inside := s.source[at+2:]
	kind, end := outputPiece, strings.Index(inside, "}}")
	if s.source[at+1] == '%' {
		kind, end = tagPiece, strings.Index(inside, "%}")
	} else if tag := strings.Index(inside, "{%"); s.in.depth > 0 && tag >= 0 && (end < 0 || tag < end) {
		end = strings.Index(inside, "%}") // an unfinished output takes the tag behind it along
	}
	if end >= 0 {
		return piece{kind: kind, at: at, from: at + 2, to: at + 2 + end}, true
	}
	if s.in.depth == 0 {
		line, _, _ := strings.Cut(s.source[at:], "\n")
		failAt(at, "%q does not end", waypost.Clip(line, 40))
	}
	return piece{}, false
}

// skipRaw leaves pos behind the end of a raw or doc block, and adds the content of a raw
// block as text. It panics with a fault if the block does not end.
func (s *scanner) skipRaw(x piece) {
	ends := rawEnds[x.name].FindStringSubmatchIndex(s.source[s.pos:])
	if ends == nil {
		failAt(x.at, "%s lacks its end%s", x.name, x.name)
	}
	if x.name == "doc" {
		s.checkDoc(x, s.source[s.pos:s.pos+ends[0]])
	}
	if x.name == "raw" && s.in.depth == 0 {
		s.out = append(s.out, piece{kind: textPiece, at: s.pos, from: s.pos, to: s.pos + ends[0]})
	}
	s.trim = ends[2] < ends[3]
	s.pos += ends[1]
}

// comments tells what stands in comments, which may stand in each other.
type comments struct {
	depth int
	at    int // where the outermost begins
}

// take tells whether a tag begins or ends a comment.
func (c *comments) take(x piece) bool {
	switch {
	case x.name == "comment":
		if c.depth++; c.depth == 1 {
			c.at = x.at
		}
	case x.name == "endcomment" && c.depth > 0:
		c.depth--
	default:
		return false
	}
	return true
}

func (c *comments) finish() {
	if c.depth > 0 {
		failAt(c.at, "comment lacks its endcomment")
	}
}

// nameTag splits a tag into its name and the rest; in a comment, anything may stand
// there.
func (p *parser) nameTag(x *piece, anything bool) {
	m := tagName.FindStringSubmatchIndex(p.source[x.from:x.to])
	if m == nil {
		if !anything {
			failAt(x.at, "a tag lacks its name")
		}
		return
	}
	x.name = p.source[x.from+m[2] : x.from+m[3]]
	x.from += m[3]
}

// checkDoc refuses a doc block with arguments or with another doc block in it.
func (p *parser) checkDoc(x piece, content string) {
	if strings.TrimSpace(p.source[x.from:x.to]) != "" {
		failAt(x.from, "doc takes no arguments")
	}
	if docBlock.MatchString(content) {
		failAt(x.at, "doc cannot stand in a doc")
	}
}

var docBlock = regexp.MustCompile(`\{%-?\s*doc\s*-?%\}`)

// scanLines takes the lines of a liquid tag apart: each is a tag.
func (p *parser) scanLines(from, to int) []piece {
	var out []piece
	var in comments
	for from <= to {
		end := strings.IndexByte(p.source[from:to], '\n')
		if end < 0 {
			end = to - from
		}
		x := piece{kind: tagPiece, at: from, from: from, to: from + end}
		from += end + 1
		line := p.source[x.from:x.to]
		if strings.TrimSpace(line) == "" {
			continue
		}
		x.at += len(line) - len(strings.TrimLeft(line, space))
		p.nameTag(&x, in.depth > 0)
		switch {
		case in.take(x) || in.depth > 0:
		case rawEnds[x.name] != nil:
			failAt(x.at, "%s cannot stand in a liquid tag", x.name)
		default:
			out = append(out, x)
		}
	}
	in.finish()
	return out
}
