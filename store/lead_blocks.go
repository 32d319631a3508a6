package store

import (
	"context"
	"math"

	"github.com/uptrace/bun"

	"waypost"
)

// A block is leadBlock ids of leads that follow each other. The index leads_by_block
// has the times of creation in each; blockOf and blockTime are as it has them.
const (
	leadsByBlock = "leads_by_block"
	leadBlock    = 8192
	blockOf      = "l.leads_id / 8192"
	blockTime    = "l.created_at + 0"
)

// meetLater is meet behind the leads of a walk by leads_id that were created at other
// times than its filter asks for. These can be half of all: leads_id and created_at grow
// together. For another order, or where few were created then, it returns the walk as it is.
func (s *leads) meetLater(ctx context.Context, tx bun.Tx, w leadWalk) (ids []int64, on *leadWalk, err error) {
	if w.order.column != "" || w.f.CreatedFrom.IsZero() && w.f.CreatedTo.IsZero() {
		return nil, &w, nil
	}
	created := waypost.LeadFilter{CreatedFrom: w.f.CreatedFrom, CreatedTo: w.f.CreatedTo}
	// Few are read sooner than all blocks are looked into.
	byTime := leadWalk{sc: w.sc, f: created, order: leadOrder{column: "created_at"}}
	var many []int64
	err = byTime.ordered(s.matching(tx, byTime, "leads_by_created", created), 1).Offset(leadWay-1).Column("leads_id").Scan(ctx, &many)
	if err != nil || len(many) == 0 {
		return nil, &w, err
	}
	next, err := s.nextCreated(ctx, tx, w, created)
	if err != nil || next == 0 {
		return nil, nil, err
	}
	w.after = []int64{next - w.order.step()}
	return s.meet(ctx, tx, w)
}

// nextCreated finds the first lead on the way of a walk by leads_id that was created when
// created says, whatever else the walk asks for; 0 if there is none. It looks once into
// each block until one has such leads, and at the leads of that one.
func (s *leads) nextCreated(ctx context.Context, tx bun.Tx, w leadWalk, created waypost.LeadFilter) (int64, error) {
	w.f = created
	for {
		block, err := s.nextBlock(ctx, tx, w)
		if err != nil || block == nil {
			return 0, err
		}
		first, last := *block*leadBlock, (*block+1)*leadBlock-1
		before, end, ends := first-1, last, "l.leads_id <= ?"
		if w.order.down {
			before, end, ends = last+1, first, "l.leads_id >= ?"
		}
		// The walk may begin within the block.
		if len(w.after) == 0 || (before-w.after[0])*w.order.step() > 0 {
			w.after = []int64{before}
		}
		var found []int64
		err = w.ordered(s.matching(tx, w, leadsByScope, w.f), 1).Column("leads_id").Where(ends, end).Scan(ctx, &found)
		if err != nil {
			return 0, err
		}
		if len(found) > 0 {
			return found[0], nil
		}
		w.after = []int64{end} // what the block has is not on the walk
	}
}

// nextBlock finds the first block of a walk by leads_id with a lead that was created
// when its filter says, nil if there is none. Where the walk begins or ends within the
// block, that lead may be beyond.
func (s *leads) nextBlock(ctx context.Context, tx bun.Tx, w leadWalk) (block *int64, err error) {
	from, to := w.f.CreatedFrom, w.f.CreatedTo
	w.f = waypost.LeadFilter{}
	begin := w.ordered(s.matching(tx, w, leadsByScope, w.f), 1).ColumnExpr(blockOf)
	w.after = nil
	next := w.ordered(s.matching(tx, w, leadsByScope, w.f), 1).ColumnExpr(blockOf)
	farthest := "max"
	if w.order.down {
		next.Where("l.leads_id < b.n * ?", leadBlock)
		farthest = "min"
	} else {
		next.Where("l.leads_id >= (b.n + 1) * ?", leadBlock)
	}
	// Of a block's times from CreatedFrom on, the first one tells.
	first := s.matching(tx, leadWalk{sc: w.sc}, leadsByBlock, w.f).ColumnExpr(blockTime).Where(blockOf + " = b.n").OrderExpr(blockTime).Limit(1)
	if !from.IsZero() {
		first.Where(blockTime+" >= ?", stampUp(from))
	}
	end := int64(math.MaxInt64)
	if !to.IsZero() {
		end = stampUp(to).UnixMicro()
	}
	// The last n is NULL, or the block.
	err = tx.NewRaw("WITH RECURSIVE b (n) AS (SELECT (?) UNION ALL SELECT (?) FROM b WHERE b.n IS NOT NULL AND COALESCE((?), ?) >= ?) "+
		"SELECT CASE WHEN count(*) = count(b.n) THEN "+farthest+"(b.n) END FROM b", begin, next, first, end, end).Scan(ctx, &block)
	return block, err
}
