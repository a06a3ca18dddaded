module checkproof

go 1.19
