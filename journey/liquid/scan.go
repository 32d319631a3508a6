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
	var out []piece
	source, pos, trim := p.source, 0, false // trim: the piece before ends with -
	text := func(to int, trimRight bool) {
		from := pos
		if trim {
			from = to - len(strings.TrimLeft(source[from:to], space))
		}
		if trimRight {
			to = from + len(strings.TrimRight(source[from:to], space))
		}
		if from < to {
			out = append(out, piece{kind: textPiece, at: from, from: from, to: to})
		}
	}
	var in comments
	for {
		open := opening.FindStringIndex(source[pos:])
		if open == nil {
			break
		}
		at := pos + open[0]
		kind, end := outputPiece, strings.Index(source[at+2:], "}}")
		if source[at+1] == '%' {
			kind, end = tagPiece, strings.Index(source[at+2:], "%}")
		} else if tag := strings.Index(source[at+2:], "{%"); in.depth > 0 && tag >= 0 && (end < 0 || tag < end) {
			end = strings.Index(source[at+2:], "%}") // an unfinished output takes the tag behind it along
		}
		if end < 0 {
			if in.depth > 0 {
				break
			}
			line, _, _ := strings.Cut(source[at:], "\n")
			failAt(at, "%q does not end", waypost.Clip(line, 40))
		}
		x := piece{kind: kind, at: at, from: at + 2, to: at + 2 + end}
		left := strings.HasPrefix(source[x.from:x.to], "-")
		if left {
			x.from++
		}
		if in.depth == 0 {
			text(at, left)
		}
		pos = x.to + 2
		trim = x.from < x.to && source[x.to-1] == '-'
		if trim {
			x.to--
		}
		if kind == tagPiece {
			p.nameTag(&x, in.depth > 0)
		}
		switch {
		case in.take(x):
		case rawEnds[x.name] != nil:
			ends := rawEnds[x.name].FindStringSubmatchIndex(source[pos:])
			if ends == nil {
				failAt(at, "%s lacks its end%s", x.name, x.name)
			}
			if x.name == "doc" {
				p.checkDoc(x, source[pos:pos+ends[0]])
			}
			if x.name == "raw" && in.depth == 0 {
				out = append(out, piece{kind: textPiece, at: pos, from: pos, to: pos + ends[0]})
			}
			trim = ends[2] < ends[3]
			pos += ends[1]
		case in.depth == 0:
			out = append(out, x)
		}
	}
	in.finish()
	text(len(source), false)
	return out
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
