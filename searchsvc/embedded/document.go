package embedded

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	index "github.com/blevesearch/bleve_index_api"

	"waypost"
	"waypost/searchsvc"
)

// The fields of a document. Name and content have two each, so that nothing
// matches across their border: terms, of which only the presence counts, and pairs
// of characters of runs, which know their positions.
const (
	fieldVisible      = "v"  // who may see it: term of visibleTerm
	fieldOrder        = "o"  // its place among hits: sorts as the newest does, descending
	fieldNameTerms    = "nt" // characters of runs, words, beginnings of words, symbols
	fieldNamePairs    = "np"
	fieldContentTerms = "ct"
	fieldContentPairs = "cp"
	fieldArticle      = "a" // stored: searchsvc.Document as JSON, without its content
	fieldContent      = "b" // stored
)

// maxKey bounds a document's key, in bytes.
const maxKey = 100

// maxWord is the length to which words are cut, in characters. No keyword has a longer
// word, so a keyword finds a cut word only as the beginning of a word.
const maxWord = searchsvc.MaxKeywords + 1

// maxEdge is up to which length the beginnings of words are terms of their own, in
// characters: so many words begin with one, two or three characters that to look
// them all up would take long.
const maxEdge = 3

// maxTerms bounds the different terms of a field, each of which takes some hundred
// bytes until it is on disk. A long book has half as many; of an article of random
// characters only the beginning is indexed.
const maxTerms = 300_000

// Marks that stand before the beginning of a word, and before a word with its accents, to tell
// them from a word.
const (
	edgeMark   = "\x00"
	accentMark = "\x01"
)

// document is an article on its way into the index.
type document struct {
	key    string
	fields []*field
}

var _ index.Document = (*document)(nil)

func newDocument(d searchsvc.Document) (*document, error) {
	if d.Key == "" || len(d.Key) > maxKey || !utf8.ValidString(d.Key) {
		return nil, fmt.Errorf("the key must be 1 to %d bytes of UTF-8", maxKey)
	}
	article := d
	article.Content = ""
	article.PublishedAt = time.UnixMilli(d.PublishedAt.UnixMilli()).UTC()
	stored, err := json.Marshal(article)
	if err != nil {
		return nil, fmt.Errorf("encode the article: %w", err)
	}
	const presence, positions = index.IndexField, index.IndexField | index.IncludeTermVectors
	return &document{key: d.Key, fields: []*field{
		{name: fieldVisible, options: presence, analyze: func(f *field) { f.addVisible(d) }},
		{name: fieldOrder, options: presence | index.DocValues, analyze: func(f *field) { f.add(order(d)) }},
		{name: fieldNameTerms, options: presence, analyze: func(f *field) { f.addTerms(d.Name) }},
		{name: fieldNamePairs, options: positions, analyze: func(f *field) { f.addPairs(d.Name) }},
		{name: fieldContentTerms, options: presence, analyze: func(f *field) { f.addTerms(d.Content) }},
		{name: fieldContentPairs, options: positions, analyze: func(f *field) { f.addPairs(d.Content) }},
		{name: fieldArticle, options: index.StoreField, value: stored},
		{name: fieldContent, options: index.StoreField, value: []byte(d.Content)},
	}}, nil
}

// visibleTerm is the term of all documents that a search may see. One term, compared byte
// by byte, decides it.
func visibleTerm(stage waypost.Stage, tenant string, from waypost.Origin, level int) string {
	return fmt.Sprintf("%s\x00%s\x00%s\x00%d", stage, tenant, from, level)
}

func (f *field) addVisible(d searchsvc.Document) {
	for level := d.VisibleFrom(); level <= waypost.MaxAccessLevel; level++ {
		f.add(visibleTerm(d.Stage, d.TenantID, waypost.FromAdmin, level))
		if d.Published {
			f.add(visibleTerm(d.Stage, d.TenantID, waypost.FromFrontend, level))
		}
	}
}

// order is the place of a document among hits, the larger the earlier: by its time,
// then by its key, of which a longer one is larger, as numbers are. There is no
// byte 0xFF in it, at which doc values are split.
func order(d searchsvc.Document) string {
	const negative = 1 << 63
	at := uint64(d.PublishedAt.UnixMilli()) ^ negative // so that times before 1970 come first
	var out []byte
	for shift := 63; shift >= 0; shift -= 7 {
		out = append(out, byte(at>>shift)&0x7F)
	}
	return string(append(out, byte(len(d.Key)))) + d.Key
}

// addTerms adds the characters of runs, words, beginnings of words and symbols of a text.
func (f *field) addTerms(text string) {
	for token := range searchsvc.Tokens(searchsvc.Fold(text)) {
		if token.Kind == searchsvc.PartWord {
			bare := searchsvc.Bare(token.Text)
			if f.addWord(bare); bare != token.Text && len(token.Text) <= searchsvc.MaxKeywords {
				f.add(accentMark + token.Text)
			}
			continue
		}
		f.add(token.Text)
		if token.Kind == searchsvc.PartSymbol {
			for _, symbol := range searchsvc.Components(token.Text) {
				f.add(symbol)
			}
		}
	}
}

func (f *field) addWord(word string) {
	count := 0
	for i := range word {
		if count > 0 && count <= maxEdge {
			f.add(edgeMark + word[:i])
		}
		if count == maxWord {
			f.add(word[:i])
			return
		}
		count++
	}
	if count <= maxEdge {
		f.add(edgeMark + word)
	}
	f.add(word)
}

// addPairs adds each two neighbouring characters of the runs of a text, with the position of
// the first one.
func (f *field) addPairs(text string) {
	text = searchsvc.Fold(text)
	position, before := 0, -1
	for i := 0; i < len(text); position++ {
		r, size := utf8.DecodeRuneInString(text[i:])
		if !searchsvc.InRun(r) {
			before, i = -1, i+size
			continue
		}
		end := i + size
		for searchsvc.KeepsMarks(r) && end < len(text) {
			mark, size := utf8.DecodeRuneInString(text[end:])
			if !unicode.IsMark(mark) {
				break
			}
			end += size
		}
		if before >= 0 {
			f.addAt(text[before:end], position-1)
		}
		before, i = i, end
	}
}

func (d *document) ID() string                                 { return d.key }
func (d *document) HasComposite() bool                         { return false }
func (d *document) VisitComposite(index.CompositeFieldVisitor) {}
func (d *document) Indexed() bool                              { return false } // counts filtered documents

func (d *document) VisitFields(visit index.FieldVisitor) {
	for _, f := range d.fields {
		visit(f)
	}
}

// AddIDField adds the field by which scorch finds a document again.
func (d *document) AddIDField() {
	d.fields = append(d.fields, &field{
		name: "_id", options: index.IndexField | index.StoreField, value: []byte(d.key),
		analyze: func(f *field) { f.add(d.key) },
	})
}

// The sizes are for scorch's statistics, which are not read.
func (d *document) Size() int                 { return 0 }
func (d *document) NumPlainTextBytes() uint64 { return 0 }
func (d *document) StoredFieldsBytes() uint64 { return 0 }

// field is one field of a document. Its terms are made when scorch asks for it, on
// all processors at once.
type field struct {
	name    string
	options index.FieldIndexingOptions
	value   []byte // stored
	analyze func(*field)
	terms   index.TokenFrequencies
}

var _ index.Field = (*field)(nil)

func (f *field) add(term string) {
	if _, ok := f.terms[term]; ok || len(f.terms) >= maxTerms {
		return
	}
	// A count of one lets scorch write a term of a single document in place.
	t := &index.TokenFreq{}
	t.SetFrequency(1)
	f.terms[term] = t
}

// placed is a term with its positions. There is one location for all of them, with
// the later ones where an array's indexes would be: that takes a sixth of the room.
type placed struct {
	index.TokenFreq
	location index.TokenLocation
	only     [1]*index.TokenLocation
}

// addAt notes a term at a position.
func (f *field) addAt(term string, position int) {
	if t, ok := f.terms[term]; ok {
		t.Locations[0].ArrayPositions = append(t.Locations[0].ArrayPositions, uint64(position))
		return
	}
	if len(f.terms) >= maxTerms {
		return
	}
	t := &placed{location: index.TokenLocation{Position: position}}
	t.only[0] = &t.location
	t.Locations = t.only[:]
	t.SetFrequency(1)
	f.terms[term] = &t.TokenFreq
}

func (f *field) Analyze() {
	f.terms = index.TokenFrequencies{}
	f.analyze(f)
}

func (f *field) Name() string                                     { return f.name }
func (f *field) Value() []byte                                    { return f.value }
func (f *field) ArrayPositions() []uint64                         { return nil }
func (f *field) EncodedFieldType() byte                           { return 't' }
func (f *field) Options() index.FieldIndexingOptions              { return f.options }
func (f *field) AnalyzedLength() int                              { return 1 } // not 0: it would lose terms of a single document
func (f *field) AnalyzedTokenFrequencies() index.TokenFrequencies { return f.terms }
func (f *field) NumPlainTextBytes() uint64                        { return 0 }
