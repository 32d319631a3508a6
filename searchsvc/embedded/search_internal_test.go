package embedded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"waypost"
	"waypost/searchsvc"
)

func TestRanking(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		count, size := r.IntN(60), 1+r.IntN(60)
		var all []string
		top := ranking{size: size}
		for i := range count {
			order := fmt.Sprintf("%03d", r.IntN(40))
			all = append(all, order)
			top.offer(place{order: order, number: uint32(i)})
		}
		slices.Sort(all)
		slices.Reverse(all)
		var got []string
		for _, p := range top.sorted() {
			got = append(got, p.order)
		}
		if want := all[:min(size, count)]; !slices.Equal(got, want) {
			t.Fatalf("the first %d of %d:\n got %q\nwant %q", size, count, got, want)
		}
	}
}

func TestDeepPagesWait(t *testing.T) {
	t.Parallel()
	x, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if err := errors.Join(x.Create(t.Context(), "g"), x.SetLive(t.Context(), "g")); err != nil {
		t.Fatal(err)
	}
	q := searchsvc.Query{Stage: waypost.StageRelease, TenantID: "t1", From: waypost.FromFrontend, Keyword: searchsvc.ParseKeyword("一"), Page: 1 << 30, PerPage: 50}
	for range maxDeep {
		x.deep <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 1)
	defer cancel()
	if _, err := x.Search(ctx, q); waypost.CodeOf(err) != waypost.CodeServiceUnavailable {
		t.Errorf("a deep page: %v", err)
	}
	shallow := q
	shallow.Page = 1
	if _, err := x.Search(t.Context(), shallow); err != nil {
		t.Errorf("the first page: %v", err)
	}
	<-x.deep
	if _, err := x.Search(t.Context(), q); err != nil {
		t.Errorf("a deep page: %v", err)
	}
}

// If scorch gives up, whoever writes is told, and searches go on.
func TestFailed(t *testing.T) {
	t.Parallel()
	x, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if err := errors.Join(x.Create(t.Context(), "g"), x.SetLive(t.Context(), "g")); err != nil {
		t.Fatal(err)
	}
	x.generations["g"].fail()
	if err := x.Delete(t.Context(), "g", []string{"1"}); waypost.CodeOf(err) != waypost.CodeServiceUnavailable {
		t.Errorf("delete: %v", err)
	}
	q := searchsvc.Query{Stage: waypost.StageRelease, TenantID: "t1", From: waypost.FromFrontend, Keyword: searchsvc.ParseKeyword("一"), Page: 1, PerPage: 50}
	if _, err := x.Search(t.Context(), q); err != nil {
		t.Errorf("search: %v", err)
	}
}

// An article of nothing but different words and characters takes bounded memory.
func TestTermsAreBounded(t *testing.T) {
	t.Parallel()
	var words, pairs strings.Builder
	for i := range maxTerms {
		fmt.Fprintf(&words, "w%d ", i)
		pairs.WriteRune(rune(0x4e00 + i/0x5000))
		pairs.WriteRune(rune(0x4e00 + i%0x5000))
	}
	for name, text := range map[string]string{fieldContentTerms: words.String(), fieldContentPairs: pairs.String()} {
		d, err := newDocument(searchsvc.Document{Key: "1", Article: waypost.Article{Content: text}})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range d.fields {
			if f.name != name {
				continue
			}
			if f.Analyze(); len(f.terms) != maxTerms {
				t.Errorf("%s: %d terms", name, len(f.terms))
			}
		}
	}
}
