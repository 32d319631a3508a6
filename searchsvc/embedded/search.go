package embedded

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"unicode/utf8"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/blevesearch/bleve/v2/index/scorch"
	segment "github.com/blevesearch/scorch_segment_api/v2"

	"waypost/searchsvc"
)

// A search for a page behind deepRank hits keeps all hits up to there in memory,
// about 60 bytes each, so only maxDeep of them run at once.
const (
	deepRank = 10_000
	maxDeep  = 2
)

// checkEvery is after how many steps a loop looks whether somebody still waits.
const checkEvery = 1024

// Search looks up each part of the keyword in each segment of the live generation:
// sets of documents, which are cut with each other. So the total is exact, and only
// hits are looked at one by one.
func (x *Index) Search(ctx context.Context, q searchsvc.Query) (found searchsvc.Found, err error) {
	if ctx.Err() != nil {
		return searchsvc.Found{}, waited(ctx)
	}
	g, err := x.useLive()
	if err != nil {
		return searchsvc.Found{}, err
	}
	defer g.release()
	first := int64(q.Page-1) * int64(q.PerPage)
	if last := first + int64(q.PerPage); last > deepRank {
		select {
		case x.deep <- struct{}{}:
			defer func() { <-x.deep }()
		case <-ctx.Done():
			return searchsvc.Found{}, waited(ctx)
		}
	}
	found, err = g.search(ctx, q, first)
	switch {
	case err == nil:
		return found, nil
	case ctx.Err() != nil:
		return searchsvc.Found{}, waited(ctx)
	}
	return searchsvc.Found{}, searchsvc.Unavailable(err)
}

// waited is the error of a search whose context has ended.
func waited(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return context.Canceled
	}
	return searchsvc.Unavailable(errors.New("the embedded index did not answer in time"))
}

// search returns the matches from first on, a page of them, of one snapshot: what is written meanwhile
// does not change the order.
func (g *generation) search(ctx context.Context, q searchsvc.Query, first int64) (found searchsvc.Found, err error) {
	// Segments are mapped into memory. A disk that fails then becomes an error.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer guard(&err)
	reader, err := g.scorch.Reader()
	if err != nil {
		return searchsvc.Found{}, err
	}
	snapshot := reader.(*scorch.IndexSnapshot)
	defer snapshot.Close()
	g.orders.dropOthers(snapshot.Segments())
	// The hits in the order in which they are shown: those with the accents of the keyword first,
	// and of both those with all of it in their name.
	var groups [4]hits
	for _, s := range snapshot.Segments() {
		m := matcher{ctx: ctx, segment: s.Segment(), dictionaries: map[string]segment.TermDictionary{}}
		all, inName, err := m.match(q, s.Deleted())
		if err != nil {
			return searchsvc.Found{}, err
		}
		accented, err := m.accented(q.Keyword, all)
		if err != nil {
			return searchsvc.Found{}, err
		}
		all.AndNot(inName)
		for i, documents := range []*roaring.Bitmap{inName, all} {
			if accented != nil {
				groups[i].add(s, roaring.And(documents, accented))
				documents.AndNot(accented)
			}
			groups[2+i].add(s, documents)
		}
	}
	for _, group := range groups {
		found.Total += group.count
	}
	last := first + int64(q.PerPage)
	for _, group := range groups {
		places, err := g.page(ctx, group, first, last)
		if err != nil {
			return searchsvc.Found{}, err
		}
		for _, p := range places {
			match, err := p.read()
			if err != nil {
				return searchsvc.Found{}, err
			}
			found.Matches = append(found.Matches, match)
		}
		first, last = max(first-int64(group.count), 0), max(last-int64(group.count), 0)
	}
	return found, nil
}

// matcher finds documents in one segment.
type matcher struct {
	ctx          context.Context
	segment      segment.Segment
	dictionaries map[string]segment.TermDictionary
}

// match returns the documents that a query finds, and those of them that hold each
// part in their name.
func (m *matcher) match(q searchsvc.Query, deleted *roaring.Bitmap) (all, inName *roaring.Bitmap, err error) {
	visible, err := m.documents(fieldVisible, visibleTerm(q.Stage, q.TenantID, q.From, q.Level))
	if err != nil {
		return nil, nil, err
	}
	all = roaring.New()
	all.Or(visible)
	if deleted != nil {
		all.AndNot(deleted)
	}
	inName = all.Clone()
	// Parts that take long to look up come last, when few documents are left.
	order := make([]int, len(q.Keyword.Parts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cost(q.Keyword.Parts[a]) - cost(q.Keyword.Parts[b]) })
	for _, i := range order {
		if all.IsEmpty() {
			break
		}
		name, content, err := m.part(q.Keyword, i, all)
		if err != nil {
			return nil, nil, err
		}
		inName.And(name)
		all.And(roaring.Or(name, content))
	}
	inName.And(all)
	return all, inName, nil
}

// accented returns the documents of among that hold the words with accents as they are
// written, nil if the keyword has none.
func (m *matcher) accented(k searchsvc.Keyword, among *roaring.Bitmap) (*roaring.Bitmap, error) {
	words := k.Accented()
	if len(words) == 0 {
		return nil, nil
	}
	all := among.Clone()
	for _, word := range words {
		name, err := m.documents(fieldNameTerms, accentMark+word)
		if err != nil {
			return nil, err
		}
		content, err := m.documents(fieldContentTerms, accentMark+word)
		if err != nil {
			return nil, err
		}
		all.And(roaring.Or(name, content))
	}
	return all, nil
}

// part returns the documents that hold a part of a keyword in their name, and the
// documents that hold it in their content; it may leave out documents that are not in
// among.
func (m *matcher) part(k searchsvc.Keyword, i int, among *roaring.Bitmap) (name, content *roaring.Bitmap, err error) {
	text := k.Parts[i].Sought()
	single := k.Parts[i].Kind != searchsvc.PartRun || len(searchsvc.Characters(text)) == 1
	look := func(terms, pairs string) (*roaring.Bitmap, error) {
		switch {
		case !single:
			return m.run(pairs, text, among)
		case i == k.LastWord() && utf8.RuneCountInString(text) > maxEdge:
			return m.beginnings(terms, text)
		case i == k.LastWord():
			return m.documents(terms, edgeMark+text)
		}
		return m.documents(terms, text)
	}
	if name, err = look(fieldNameTerms, fieldNamePairs); err != nil {
		return nil, nil, err
	}
	content, err = look(fieldContentTerms, fieldContentPairs)
	return name, content, err
}

// cost is the length of a run, of which the positions have to be read.
func cost(p searchsvc.Part) int {
	if p.Kind != searchsvc.PartRun {
		return 0
	}
	return utf8.RuneCountInString(p.Text)
}

func (m *matcher) dictionary(field string) (segment.TermDictionary, error) {
	if d, ok := m.dictionaries[field]; ok {
		return d, nil
	}
	d, err := m.segment.Dictionary(field)
	if err != nil {
		return nil, fmt.Errorf("read the terms: %w", err)
	}
	m.dictionaries[field] = d
	return d, nil
}

// documents returns the documents that hold a term. The bitmap must not be changed: it may
// lie in the segment's file.
func (m *matcher) documents(field, term string) (*roaring.Bitmap, error) {
	d, err := m.dictionary(field)
	if err != nil {
		return nil, err
	}
	postings, err := d.PostingsList([]byte(term), nil, nil)
	if err != nil {
		return nil, fmt.Errorf("look up a term: %w", err)
	}
	return bitmap(postings)
}

func bitmap(postings segment.PostingsList) (*roaring.Bitmap, error) {
	list, ok := postings.Iterator(false, false, false, nil).(segment.OptimizablePostingsIterator)
	if !ok {
		return nil, fmt.Errorf("postings of type %T", postings)
	}
	if number, ok := list.DocNum1Hit(); ok {
		return roaring.BitmapOf(uint32(number)), nil
	}
	if documents := list.ActualBitmap(); documents != nil {
		return documents, nil
	}
	return roaring.New(), nil
}

// beginnings are the documents that hold a word with this beginning. There is no
// bound on how many such words there are: none is left out.
func (m *matcher) beginnings(field, beginning string) (*roaring.Bitmap, error) {
	d, err := m.dictionary(field)
	if err != nil {
		return nil, err
	}
	end := []byte(beginning)
	end[len(end)-1]++ // the last byte of UTF-8 is never 0xFF
	words := d.AutomatonIterator(nil, []byte(beginning), end)
	found := roaring.New()
	var postings segment.PostingsList
	for n := 0; ; n++ {
		if n%checkEvery == 0 && m.ctx.Err() != nil {
			return nil, m.ctx.Err()
		}
		word, err := words.Next()
		if err != nil {
			return nil, fmt.Errorf("list words: %w", err)
		}
		if word == nil {
			return found, nil
		}
		if postings, err = d.PostingsList([]byte(word.Term), nil, postings); err != nil {
			return nil, fmt.Errorf("look up a word: %w", err)
		}
		documents, err := bitmap(postings)
		if err != nil {
			return nil, err
		}
		found.Or(documents)
	}
}

// run returns the documents of among that hold a run of characters: all of its pairs, side by
// side.
func (m *matcher) run(field, text string, among *roaring.Bitmap) (*roaring.Bitmap, error) {
	d, err := m.dictionary(field)
	if err != nil {
		return nil, err
	}
	pairs := searchsvc.Pairs(text)
	lists := make([]segment.PostingsList, len(pairs))
	found := among.Clone()
	for i, pair := range pairs {
		if lists[i], err = d.PostingsList([]byte(pair), nil, nil); err != nil {
			return nil, fmt.Errorf("look up a pair: %w", err)
		}
		documents, err := bitmap(lists[i])
		if err != nil {
			return nil, err
		}
		if found.And(documents); found.IsEmpty() {
			return found, nil
		}
	}
	if len(pairs) == 1 {
		return found, nil
	}
	return m.sideBySide(lists, found)
}

// sideBySide returns the documents of among in which these pairs follow each other; all of
// among hold each of them. To look at every second pair and at the last is enough.
func (m *matcher) sideBySide(lists []segment.PostingsList, among *roaring.Bitmap) (*roaring.Bitmap, error) {
	type follower struct {
		offset    uint64
		documents segment.PostingsIterator
	}
	var row []follower
	for offset := range lists {
		if offset%2 == 1 && offset != len(lists)-1 {
			continue
		}
		documents := lists[offset].Iterator(true, true, true, nil)
		documents.(segment.OptimizablePostingsIterator).ReplaceActual(among)
		row = append(row, follower{uint64(offset), documents})
	}
	found := roaring.New()
	var starts, here []uint64
	for n, documents := 0, among.Iterator(); documents.HasNext(); n++ {
		if n%checkEvery == 0 && m.ctx.Err() != nil {
			return nil, m.ctx.Err()
		}
		number := documents.Next()
		for i, f := range row {
			posting, err := f.documents.Next()
			if err != nil {
				return nil, fmt.Errorf("read positions: %w", err)
			}
			if posting == nil || posting.Number() != uint64(number) {
				return nil, errors.New("read positions: a document is missing")
			}
			if i == 0 {
				starts = positions(posting, 0, starts)
			} else if len(starts) > 0 { // all lists go on, even where it is decided
				here = positions(posting, f.offset, here)
				starts = common(starts, here)
			}
		}
		if len(starts) > 0 {
			found.Add(number)
		}
	}
	return found, nil
}

// positions returns the positions of a term in a document, less an offset, ascending, as
// field.addAt wrote them. It reuses buf.
func positions(p segment.Posting, offset uint64, buf []uint64) []uint64 {
	out := buf[:0]
	for _, location := range p.Locations() {
		for _, position := range append([]uint64{location.Pos()}, location.ArrayPositions()...) {
			if position >= offset {
				out = append(out, position-offset)
			}
		}
	}
	return out
}

// common returns the numbers that are in a and in b, which ascend, in a's memory.
func common(a, b []uint64) []uint64 {
	out, j := a[:0], 0
	for _, v := range a {
		for j < len(b) && b[j] < v {
			j++
		}
		if j < len(b) && b[j] == v {
			out = append(out, v)
		}
	}
	return out
}

// hits are documents in the segments of a snapshot.
type hits struct {
	count int
	parts []hitsOf
}

type hitsOf struct {
	segment   *scorch.SegmentSnapshot
	documents *roaring.Bitmap
}

func (h *hits) add(s *scorch.SegmentSnapshot, documents *roaring.Bitmap) {
	if documents.IsEmpty() {
		return
	}
	h.count += int(documents.GetCardinality())
	h.parts = append(h.parts, hitsOf{s, documents})
}

// place is a hit and where it stands among the others.
type place struct {
	order   string
	segment *scorch.SegmentSnapshot
	number  uint32
}

// page returns the hits from rank first to before rank last.
func (g *generation) page(ctx context.Context, h hits, first, last int64) ([]place, error) {
	last = min(last, int64(h.count))
	if first >= last {
		return nil, nil
	}
	top := ranking{size: int(last)}
	for _, part := range h.parts {
		orders, err := g.orders.of(part.segment)
		if err != nil {
			return nil, fmt.Errorf("read the order: %w", err)
		}
		numbers := part.documents.Iterator()
		for n := 0; numbers.HasNext(); n++ {
			if n%checkEvery == 0 && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			number := numbers.Next()
			top.offer(place{orders.at(number), part.segment, number})
		}
	}
	return top.sorted()[first:], nil
}

// ranking keeps the first hits of those that it is offered: a heap with the last of
// them on top.
type ranking struct {
	size   int
	places []place
}

func (r *ranking) Len() int           { return len(r.places) }
func (r *ranking) Less(i, j int) bool { return r.places[i].order < r.places[j].order }
func (r *ranking) Swap(i, j int)      { r.places[i], r.places[j] = r.places[j], r.places[i] }
func (r *ranking) Push(x any)         { r.places = append(r.places, x.(place)) }
func (r *ranking) Pop() any           { panic("the last one is replaced, never taken out") }

func (r *ranking) offer(p place) {
	if len(r.places) < r.size {
		heap.Push(r, p)
	} else if p.order > r.places[0].order {
		r.places[0] = p
		heap.Fix(r, 0)
	}
}

func (r *ranking) sorted() []place {
	slices.SortFunc(r.places, func(a, b place) int { return cmp.Compare(b.order, a.order) })
	return r.places
}

// read reads the article of a hit.
func (p place) read() (searchsvc.Match, error) {
	var d searchsvc.Document
	var content string
	var failure error
	err := p.segment.VisitDocument(uint64(p.number), func(field string, _ byte, value []byte, _ []uint64) bool {
		switch field {
		case fieldArticle:
			failure = json.Unmarshal(value, &d)
		case fieldContent:
			content = string(value)
		}
		return true
	})
	if err := errors.Join(err, failure); err != nil {
		return searchsvc.Match{}, fmt.Errorf("read an article: %w", err)
	}
	d.Content = content
	return searchsvc.Match{Document: d}, nil
}
