module static_32x4(batch, computing, ready, clk, rst, fetch, address__0, address__1, address__2, address__3, valid, sent__0, sent__1, sent__2, sent__3, done, start);
  reg \$auto$verilog_backend.cc:2505:dump_module$1  = 0;
  input [5:0] batch;
  wire [5:0] batch;
  input [31:0] computing;
  wire [31:0] computing;
  input [3:0] ready;
  wire [3:0] ready;
  input clk;
  wire clk;
  input rst;
  wire rst;
  output [3:0] fetch;
  wire [3:0] fetch;
  output [8:0] address__0;
  wire [8:0] address__0;
  output [8:0] address__1;
  wire [8:0] address__1;
  output [8:0] address__2;
  wire [8:0] address__2;
  output [8:0] address__3;
  wire [8:0] address__3;
  output [3:0] valid;
  wire [3:0] valid;
  output [4:0] sent__0;
  wire [4:0] sent__0;
  output [4:0] sent__1;
  wire [4:0] sent__1;
  output [4:0] sent__2;
  wire [4:0] sent__2;
  output [4:0] sent__3;
  wire [4:0] sent__3;
  output done;
  wire done;
  input start;
  wire start;
  wire [5:0] \$1 ;
  wire [5:0] \$10 ;
  wire [6:0] \$11 ;
  wire \$12 ;
  wire [3:0] \$13 ;
  reg [3:0] \$14 ;
  wire [6:0] \$2 ;
  wire \$3 ;
  wire [5:0] \$4 ;
  wire [6:0] \$5 ;
  wire \$6 ;
  wire [5:0] \$7 ;
  wire [6:0] \$8 ;
  wire \$9 ;
  wire [3:0] \$signal ;
  wire [8:0] address;
  wire [8:0] \address$34 ;
  wire [8:0] \address$44 ;
  wire [8:0] \address$54 ;
  wire \begin ;
  wire \begin$29 ;
  wire \begin$39 ;
  wire \begin$49 ;
  reg computes;
  reg \computes$31 ;
  reg \computes$41 ;
  reg \computes$51 ;
  reg [3:0] count;
  reg [3:0] \count$30 ;
  reg [3:0] \count$40 ;
  reg [3:0] \count$50 ;
  wire \done$28 ;
  wire \done$38 ;
  wire \done$48 ;
  wire \done$58 ;
  wire \fetch$21 ;
  wire \fetch$33 ;
  wire \fetch$43 ;
  wire \fetch$53 ;
  wire \ready$24 ;
  wire \ready$36 ;
  wire \ready$46 ;
  wire \ready$56 ;
  wire [2:0] sent;
  wire [2:0] \sent$37 ;
  wire [2:0] \sent$47 ;
  wire [2:0] \sent$57 ;
  wire [2:0] \sequence ;
  wire [2:0] \sequence$32 ;
  wire [2:0] \sequence$42 ;
  wire [2:0] \sequence$52 ;
  reg [3:0] through = 4'h0;
  wire \valid$23 ;
  wire \valid$35 ;
  wire \valid$45 ;
  wire \valid$55 ;
  assign \$1  = 3'h4 * sent;
  assign \$2  = 1'h0 + \$1 ;
  assign \$3  = through[0] | \done$28 ;
  assign \$4  = 3'h4 * \sent$37 ;
  assign \$5  = 1'h1 + \$4 ;
  assign \$6  = through[1] | \done$38 ;
  assign \$7  = 3'h4 * \sent$47 ;
  assign \$8  = 2'h2 + \$7 ;
  assign \$9  = through[2] | \done$48 ;
  assign \$10  = 3'h4 * \sent$57 ;
  assign \$11  = 2'h3 + \$10 ;
  assign \$12  = through[3] | \done$58 ;
  assign done = & \$signal ;
  assign \$13  = done ? 4'h0 : \$signal ;
  always @(posedge clk)
    through <= \$14 ;
  \top.core_0  core_0 (
    .address(address__0),
    .\begin (start),
    .clk(clk),
    .computes(computes),
    .count(count),
    .done(\done$28 ),
    .fetch(\fetch$21 ),
    .ready(ready[0]),
    .rst(rst),
    .sent(sent),
    .\sequence (\sequence ),
    .valid(\valid$23 )
  );
  \top.core_1  core_1 (
    .address(address__1),
    .\begin (start),
    .clk(clk),
    .computes(\computes$31 ),
    .count(\count$30 ),
    .done(\done$38 ),
    .fetch(\fetch$33 ),
    .ready(ready[1]),
    .rst(rst),
    .sent(\sent$37 ),
    .\sequence (\sequence$32 ),
    .valid(\valid$35 )
  );
  \top.core_2  core_2 (
    .address(address__2),
    .\begin (start),
    .clk(clk),
    .computes(\computes$41 ),
    .count(\count$40 ),
    .done(\done$48 ),
    .fetch(\fetch$43 ),
    .ready(ready[2]),
    .rst(rst),
    .sent(\sent$47 ),
    .\sequence (\sequence$42 ),
    .valid(\valid$45 )
  );
  \top.core_3  core_3 (
    .address(address__3),
    .\begin (start),
    .clk(clk),
    .computes(\computes$51 ),
    .count(\count$50 ),
    .done(\done$58 ),
    .fetch(\fetch$53 ),
    .ready(ready[3]),
    .rst(rst),
    .sent(\sent$57 ),
    .\sequence (\sequence$52 ),
    .valid(\valid$55 )
  );
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    count = 4'h0;
    casez (batch)
      6'h00:
          count = 4'h0;
      6'h01:
          count = 4'h1;
      6'h02:
          count = 4'h1;
      6'h03:
          count = 4'h1;
      6'h04:
          count = 4'h1;
      6'h05:
          count = 4'h2;
      6'h06:
          count = 4'h2;
      6'h07:
          count = 4'h2;
      6'h08:
          count = 4'h2;
      6'h09:
          count = 4'h3;
      6'h0a:
          count = 4'h3;
      6'h0b:
          count = 4'h3;
      6'h0c:
          count = 4'h3;
      6'h0d:
          count = 4'h4;
      6'h0e:
          count = 4'h4;
      6'h0f:
          count = 4'h4;
      6'h10:
          count = 4'h4;
      6'h11:
          count = 4'h5;
      6'h12:
          count = 4'h5;
      6'h13:
          count = 4'h5;
      6'h14:
          count = 4'h5;
      6'h15:
          count = 4'h6;
      6'h16:
          count = 4'h6;
      6'h17:
          count = 4'h6;
      6'h18:
          count = 4'h6;
      6'h19:
          count = 4'h7;
      6'h1a:
          count = 4'h7;
      6'h1b:
          count = 4'h7;
      6'h1c:
          count = 4'h7;
      6'h1d:
          count = 4'h8;
      6'h1e:
          count = 4'h8;
      6'h1f:
          count = 4'h8;
      6'h20:
          count = 4'h8;
    endcase
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    casez (\sequence )
      3'h0:
          computes = computing[0];
      3'h1:
          computes = computing[4];
      3'h2:
          computes = computing[8];
      3'h3:
          computes = computing[12];
      3'h4:
          computes = computing[16];
      3'h5:
          computes = computing[20];
      3'h6:
          computes = computing[24];
      3'h7:
          computes = computing[28];
    endcase
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \count$30  = 4'h0;
    casez (batch)
      6'h00:
          \count$30  = 4'h0;
      6'h01:
          \count$30  = 4'h0;
      6'h02:
          \count$30  = 4'h1;
      6'h03:
          \count$30  = 4'h1;
      6'h04:
          \count$30  = 4'h1;
      6'h05:
          \count$30  = 4'h1;
      6'h06:
          \count$30  = 4'h2;
      6'h07:
          \count$30  = 4'h2;
      6'h08:
          \count$30  = 4'h2;
      6'h09:
          \count$30  = 4'h2;
      6'h0a:
          \count$30  = 4'h3;
      6'h0b:
          \count$30  = 4'h3;
      6'h0c:
          \count$30  = 4'h3;
      6'h0d:
          \count$30  = 4'h3;
      6'h0e:
          \count$30  = 4'h4;
      6'h0f:
          \count$30  = 4'h4;
      6'h10:
          \count$30  = 4'h4;
      6'h11:
          \count$30  = 4'h4;
      6'h12:
          \count$30  = 4'h5;
      6'h13:
          \count$30  = 4'h5;
      6'h14:
          \count$30  = 4'h5;
      6'h15:
          \count$30  = 4'h5;
      6'h16:
          \count$30  = 4'h6;
      6'h17:
          \count$30  = 4'h6;
      6'h18:
          \count$30  = 4'h6;
      6'h19:
          \count$30  = 4'h6;
      6'h1a:
          \count$30  = 4'h7;
      6'h1b:
          \count$30  = 4'h7;
      6'h1c:
          \count$30  = 4'h7;
      6'h1d:
          \count$30  = 4'h7;
      6'h1e:
          \count$30  = 4'h8;
      6'h1f:
          \count$30  = 4'h8;
      6'h20:
          \count$30  = 4'h8;
    endcase
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    casez (\sequence$32 )
      3'h0:
          \computes$31  = computing[1];
      3'h1:
          \computes$31  = computing[5];
      3'h2:
          \computes$31  = computing[9];
      3'h3:
          \computes$31  = computing[13];
      3'h4:
          \computes$31  = computing[17];
      3'h5:
          \computes$31  = computing[21];
      3'h6:
          \computes$31  = computing[25];
      3'h7:
          \computes$31  = computing[29];
    endcase
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \count$40  = 4'h0;
    casez (batch)
      6'h00:
          \count$40  = 4'h0;
      6'h01:
          \count$40  = 4'h0;
      6'h02:
          \count$40  = 4'h0;
      6'h03:
          \count$40  = 4'h1;
      6'h04:
          \count$40  = 4'h1;
      6'h05:
          \count$40  = 4'h1;
      6'h06:
          \count$40  = 4'h1;
      6'h07:
          \count$40  = 4'h2;
      6'h08:
          \count$40  = 4'h2;
      6'h09:
          \count$40  = 4'h2;
      6'h0a:
          \count$40  = 4'h2;
      6'h0b:
          \count$40  = 4'h3;
      6'h0c:
          \count$40  = 4'h3;
      6'h0d:
          \count$40  = 4'h3;
      6'h0e:
          \count$40  = 4'h3;
      6'h0f:
          \count$40  = 4'h4;
      6'h10:
          \count$40  = 4'h4;
      6'h11:
          \count$40  = 4'h4;
      6'h12:
          \count$40  = 4'h4;
      6'h13:
          \count$40  = 4'h5;
      6'h14:
          \count$40  = 4'h5;
      6'h15:
          \count$40  = 4'h5;
      6'h16:
          \count$40  = 4'h5;
      6'h17:
          \count$40  = 4'h6;
      6'h18:
          \count$40  = 4'h6;
      6'h19:
          \count$40  = 4'h6;
      6'h1a:
          \count$40  = 4'h6;
      6'h1b:
          \count$40  = 4'h7;
      6'h1c:
          \count$40  = 4'h7;
      6'h1d:
          \count$40  = 4'h7;
      6'h1e:
          \count$40  = 4'h7;
      6'h1f:
          \count$40  = 4'h8;
      6'h20:
          \count$40  = 4'h8;
    endcase
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    casez (\sequence$42 )
      3'h0:
          \computes$41  = computing[2];
      3'h1:
          \computes$41  = computing[6];
      3'h2:
          \computes$41  = computing[10];
      3'h3:
          \computes$41  = computing[14];
      3'h4:
          \computes$41  = computing[18];
      3'h5:
          \computes$41  = computing[22];
      3'h6:
          \computes$41  = computing[26];
      3'h7:
          \computes$41  = computing[30];
    endcase
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \count$50  = 4'h0;
    casez (batch)
      6'h00:
          \count$50  = 4'h0;
      6'h01:
          \count$50  = 4'h0;
      6'h02:
          \count$50  = 4'h0;
      6'h03:
          \count$50  = 4'h0;
      6'h04:
          \count$50  = 4'h1;
      6'h05:
          \count$50  = 4'h1;
      6'h06:
          \count$50  = 4'h1;
      6'h07:
          \count$50  = 4'h1;
      6'h08:
          \count$50  = 4'h2;
      6'h09:
          \count$50  = 4'h2;
      6'h0a:
          \count$50  = 4'h2;
      6'h0b:
          \count$50  = 4'h2;
      6'h0c:
          \count$50  = 4'h3;
      6'h0d:
          \count$50  = 4'h3;
      6'h0e:
          \count$50  = 4'h3;
      6'h0f:
          \count$50  = 4'h3;
      6'h10:
          \count$50  = 4'h4;
      6'h11:
          \count$50  = 4'h4;
      6'h12:
          \count$50  = 4'h4;
      6'h13:
          \count$50  = 4'h4;
      6'h14:
          \count$50  = 4'h5;
      6'h15:
          \count$50  = 4'h5;
      6'h16:
          \count$50  = 4'h5;
      6'h17:
          \count$50  = 4'h5;
      6'h18:
          \count$50  = 4'h6;
      6'h19:
          \count$50  = 4'h6;
      6'h1a:
          \count$50  = 4'h6;
      6'h1b:
          \count$50  = 4'h6;
      6'h1c:
          \count$50  = 4'h7;
      6'h1d:
          \count$50  = 4'h7;
      6'h1e:
          \count$50  = 4'h7;
      6'h1f:
          \count$50  = 4'h7;
      6'h20:
          \count$50  = 4'h8;
    endcase
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    casez (\sequence$52 )
      3'h0:
          \computes$51  = computing[3];
      3'h1:
          \computes$51  = computing[7];
      3'h2:
          \computes$51  = computing[11];
      3'h3:
          \computes$51  = computing[15];
      3'h4:
          \computes$51  = computing[19];
      3'h5:
          \computes$51  = computing[23];
      3'h6:
          \computes$51  = computing[27];
      3'h7:
          \computes$51  = computing[31];
    endcase
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$14  = \$13 ;
    if (rst) begin
      \$14  = 4'h0;
    end
  end
  assign \begin  = start;
  assign address = address__0;
  assign \ready$24  = ready[0];
  assign \begin$29  = start;
  assign \address$34  = address__1;
  assign \ready$36  = ready[1];
  assign \begin$39  = start;
  assign \address$44  = address__2;
  assign \ready$46  = ready[2];
  assign \begin$49  = start;
  assign \address$54  = address__3;
  assign \ready$56  = ready[3];
  assign sent__0 = \$2 [4:0];
  assign sent__1 = \$5 [4:0];
  assign sent__2 = \$8 [4:0];
  assign sent__3 = \$11 [4:0];
  assign \$signal [3] = \$12 ;
  assign \$signal [2] = \$9 ;
  assign \$signal [1] = \$6 ;
  assign \$signal [0] = \$3 ;
  assign valid[3] = \valid$55 ;
  assign valid[2] = \valid$45 ;
  assign valid[1] = \valid$35 ;
  assign valid[0] = \valid$23 ;
  assign fetch[3] = \fetch$53 ;
  assign fetch[2] = \fetch$43 ;
  assign fetch[1] = \fetch$33 ;
  assign fetch[0] = \fetch$21 ;
endmodule

module \top.core_0 (ready, clk, rst, count, computes, fetch, done, valid, sent, address, \sequence , \begin );
  reg \$auto$verilog_backend.cc:2505:dump_module$2  = 0;
  input ready;
  wire ready;
  input clk;
  wire clk;
  input rst;
  wire rst;
  input [3:0] count;
  wire [3:0] count;
  input computes;
  wire computes;
  output fetch;
  wire fetch;
  output done;
  wire done;
  output valid;
  reg valid = 1'h0;
  output [2:0] sent;
  reg [2:0] sent = 3'h0;
  output [8:0] address;
  reg [8:0] address = 9'h000;
  output [2:0] \sequence ;
  reg [2:0] \sequence  = 3'h0;
  input \begin ;
  wire \begin ;
  wire \$1 ;
  wire \$10 ;
  wire \$11 ;
  wire \$12 ;
  wire \$13 ;
  wire \$14 ;
  wire \$15 ;
  wire \$16 ;
  wire \$17 ;
  wire [2:0] \$18 ;
  wire [2:0] \$19 ;
  wire \$2 ;
  wire \$20 ;
  wire [9:0] \$21 ;
  wire [6:0] \$22 ;
  wire [3:0] \$23 ;
  reg \$24 ;
  reg \$25 ;
  reg \$26 ;
  reg [1:0] \$27 ;
  reg [2:0] \$28 ;
  reg [8:0] \$29 ;
  wire \$3 ;
  reg [5:0] \$30 ;
  reg [2:0] \$31 ;
  wire \$4 ;
  wire \$5 ;
  wire \$6 ;
  wire \$7 ;
  wire \$8 ;
  wire [4:0] \$9 ;
  wire \$signal ;
  reg \$signal$1  = 1'h0;
  wire \$signal$11 ;
  wire \$signal$4 ;
  wire \$signal$7 ;
  wire [-1:0] core;
  reg ending = 1'h0;
  reg [5:0] instruction = 6'h00;
  wire leaves;
  reg [1:0] \wait  = 2'h3;
  assign \$1  = | count;
  assign \$2  = \begin  & \$1 ;
  assign \$signal  = \$signal$1  | \$2 ;
  assign \$3  = ~ ready;
  assign \$4  = valid & \$3 ;
  assign \$5  = ~ \$signal$4 ;
  assign \$6  = \$signal  & \$5 ;
  assign \$7  = ! \wait ;
  assign \$signal$7  = \$6  & \$7 ;
  assign \$8  = instruction == 6'h3f;
  assign leaves = \$signal$7  & \$8 ;
  assign \$9  = count - 1'h1;
  assign \$10  = \sequence  == \$9 ;
  assign \$signal$11  = leaves & \$10 ;
  assign \$11  = ~ \$signal$4 ;
  assign \$12  = ending & \$11 ;
  assign \$13  = ! count;
  assign \$14  = \begin  & \$13 ;
  assign done = \$12  | \$14 ;
  assign \$15  = ~ \$signal$4 ;
  assign \$16  = ~ \$signal$4 ;
  assign \$17  = ! \wait ;
  assign \$18  = \wait  - 1'h1;
  assign \$19  = \$17  ? 3'h3 : \$18 ;
  assign \$21  = address + 1'h1;
  assign \$22  = instruction + 1'h1;
  assign \$23  = \sequence  + 1'h1;
  always @(posedge clk)
    valid <= \$24 ;
  always @(posedge clk)
    ending <= \$25 ;
  always @(posedge clk)
    \$signal$1  <= \$26 ;
  always @(posedge clk)
    \wait  <= \$27 ;
  always @(posedge clk)
    sent <= \$28 ;
  always @(posedge clk)
    address <= \$29 ;
  always @(posedge clk)
    instruction <= \$30 ;
  always @(posedge clk)
    \sequence  <= \$31 ;
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$24  = valid;
    if (\$15 ) begin
      \$24  = 1'h0;
    end
    if (\$signal$7 ) begin
      \$24  = \$20 ;
    end
    if (rst) begin
      \$24  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$25  = ending;
    if (\$15 ) begin
      \$25  = 1'h0;
    end
    if (\$signal$11 ) begin
      \$25  = 1'h1;
    end
    if (rst) begin
      \$25  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$26  = \$signal$1 ;
    if (\$signal ) begin
      \$26  = 1'h1;
    end
    if (\$signal$11 ) begin
      \$26  = 1'h0;
    end
    if (rst) begin
      \$26  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$27  = \wait ;
    if (\$signal ) begin
      if (\$16 ) begin
        \$27  = \$19 [1:0];
      end
    end
    if (rst) begin
      \$27  = 2'h3;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$28  = sent;
    if (\$signal$7 ) begin
      \$28  = \sequence ;
    end
    if (rst) begin
      \$28  = 3'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$29  = address;
    if (\$signal$7 ) begin
      \$29  = \$21 [8:0];
    end
    if (\$signal$11 ) begin
      \$29  = 9'h000;
    end
    if (rst) begin
      \$29  = 9'h000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$30  = instruction;
    if (\$signal$7 ) begin
      \$30  = \$22 [5:0];
    end
    if (leaves) begin
      \$30  = 6'h00;
    end
    if (rst) begin
      \$30  = 6'h00;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$31  = \sequence ;
    if (leaves) begin
      \$31  = \$23 [2:0];
    end
    if (\$signal$11 ) begin
      \$31  = 3'h0;
    end
    if (rst) begin
      \$31  = 3'h0;
    end
  end
  assign fetch = \$signal$7 ;
  assign \$signal$4  = \$4 ;
  assign \$20  = computes;
endmodule

module \top.core_1 (ready, clk, rst, count, computes, fetch, done, valid, sent, address, \sequence , \begin );
  reg \$auto$verilog_backend.cc:2505:dump_module$3  = 0;
  input ready;
  wire ready;
  input clk;
  wire clk;
  input rst;
  wire rst;
  input [3:0] count;
  wire [3:0] count;
  input computes;
  wire computes;
  output fetch;
  wire fetch;
  output done;
  wire done;
  output valid;
  reg valid = 1'h0;
  output [2:0] sent;
  reg [2:0] sent = 3'h0;
  output [8:0] address;
  reg [8:0] address = 9'h000;
  output [2:0] \sequence ;
  reg [2:0] \sequence  = 3'h0;
  input \begin ;
  wire \begin ;
  wire \$1 ;
  wire \$10 ;
  wire \$11 ;
  wire \$12 ;
  wire \$13 ;
  wire \$14 ;
  wire \$15 ;
  wire \$16 ;
  wire \$17 ;
  wire [2:0] \$18 ;
  wire [2:0] \$19 ;
  wire \$2 ;
  wire \$20 ;
  wire [9:0] \$21 ;
  wire [6:0] \$22 ;
  wire [3:0] \$23 ;
  reg \$24 ;
  reg \$25 ;
  reg \$26 ;
  reg [1:0] \$27 ;
  reg [2:0] \$28 ;
  reg [8:0] \$29 ;
  wire \$3 ;
  reg [5:0] \$30 ;
  reg [2:0] \$31 ;
  wire \$4 ;
  wire \$5 ;
  wire \$6 ;
  wire \$7 ;
  wire \$8 ;
  wire [4:0] \$9 ;
  wire \$signal ;
  reg \$signal$1  = 1'h0;
  wire \$signal$11 ;
  wire \$signal$4 ;
  wire \$signal$7 ;
  wire [-1:0] core;
  reg ending = 1'h0;
  reg [5:0] instruction = 6'h00;
  wire leaves;
  reg [1:0] \wait  = 2'h3;
  assign \$1  = | count;
  assign \$2  = \begin  & \$1 ;
  assign \$signal  = \$signal$1  | \$2 ;
  assign \$3  = ~ ready;
  assign \$4  = valid & \$3 ;
  assign \$5  = ~ \$signal$4 ;
  assign \$6  = \$signal  & \$5 ;
  assign \$7  = ! \wait ;
  assign \$signal$7  = \$6  & \$7 ;
  assign \$8  = instruction == 6'h3f;
  assign leaves = \$signal$7  & \$8 ;
  assign \$9  = count - 1'h1;
  assign \$10  = \sequence  == \$9 ;
  assign \$signal$11  = leaves & \$10 ;
  assign \$11  = ~ \$signal$4 ;
  assign \$12  = ending & \$11 ;
  assign \$13  = ! count;
  assign \$14  = \begin  & \$13 ;
  assign done = \$12  | \$14 ;
  assign \$15  = ~ \$signal$4 ;
  assign \$16  = ~ \$signal$4 ;
  assign \$17  = ! \wait ;
  assign \$18  = \wait  - 1'h1;
  assign \$19  = \$17  ? 3'h3 : \$18 ;
  assign \$21  = address + 1'h1;
  assign \$22  = instruction + 1'h1;
  assign \$23  = \sequence  + 1'h1;
  always @(posedge clk)
    valid <= \$24 ;
  always @(posedge clk)
    ending <= \$25 ;
  always @(posedge clk)
    \$signal$1  <= \$26 ;
  always @(posedge clk)
    \wait  <= \$27 ;
  always @(posedge clk)
    sent <= \$28 ;
  always @(posedge clk)
    address <= \$29 ;
  always @(posedge clk)
    instruction <= \$30 ;
  always @(posedge clk)
    \sequence  <= \$31 ;
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$3 ) begin end
    \$24  = valid;
    if (\$15 ) begin
      \$24  = 1'h0;
    end
    if (\$signal$7 ) begin
      \$24  = \$20 ;
    end
    if (rst) begin
      \$24  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$3 ) begin end
    \$25  = ending;
    if (\$15 ) begin
      \$25  = 1'h0;
    end
    if (\$signal$11 ) begin
      \$25  = 1'h1;
    end
    if (rst) begin
      \$25  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$3 ) begin end
    \$26  = \$signal$1 ;
    if (\$signal ) begin
      \$26  = 1'h1;
    end
    if (\$signal$11 ) begin
      \$26  = 1'h0;
    end
    if (rst) begin
      \$26  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$3 ) begin end
    \$27  = \wait ;
    if (\$signal ) begin
      if (\$16 ) begin
        \$27  = \$19 [1:0];
      end
    end
    if (rst) begin
      \$27  = 2'h3;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$3 ) begin end
    \$28  = sent;
    if (\$signal$7 ) begin
      \$28  = \sequence ;
    end
    if (rst) begin
      \$28  = 3'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$3 ) begin end
    \$29  = address;
    if (\$signal$7 ) begin
      \$29  = \$21 [8:0];
    end
    if (\$signal$11 ) begin
      \$29  = 9'h000;
    end
    if (rst) begin
      \$29  = 9'h000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$3 ) begin end
    \$30  = instruction;
    if (\$signal$7 ) begin
      \$30  = \$22 [5:0];
    end
    if (leaves) begin
      \$30  = 6'h00;
    end
    if (rst) begin
      \$30  = 6'h00;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$3 ) begin end
    \$31  = \sequence ;
    if (leaves) begin
      \$31  = \$23 [2:0];
    end
    if (\$signal$11 ) begin
      \$31  = 3'h0;
    end
    if (rst) begin
      \$31  = 3'h0;
    end
  end
  assign fetch = \$signal$7 ;
  assign \$signal$4  = \$4 ;
  assign \$20  = computes;
endmodule

module \top.core_2 (ready, clk, rst, count, computes, fetch, done, valid, sent, address, \sequence , \begin );
  reg \$auto$verilog_backend.cc:2505:dump_module$4  = 0;
  input ready;
  wire ready;
  input clk;
  wire clk;
  input rst;
  wire rst;
  input [3:0] count;
  wire [3:0] count;
  input computes;
  wire computes;
  output fetch;
  wire fetch;
  output done;
  wire done;
  output valid;
  reg valid = 1'h0;
  output [2:0] sent;
  reg [2:0] sent = 3'h0;
  output [8:0] address;
  reg [8:0] address = 9'h000;
  output [2:0] \sequence ;
  reg [2:0] \sequence  = 3'h0;
  input \begin ;
  wire \begin ;
  wire \$1 ;
  wire \$10 ;
  wire \$11 ;
  wire \$12 ;
  wire \$13 ;
  wire \$14 ;
  wire \$15 ;
  wire \$16 ;
  wire \$17 ;
  wire [2:0] \$18 ;
  wire [2:0] \$19 ;
  wire \$2 ;
  wire \$20 ;
  wire [9:0] \$21 ;
  wire [6:0] \$22 ;
  wire [3:0] \$23 ;
  reg \$24 ;
  reg \$25 ;
  reg \$26 ;
  reg [1:0] \$27 ;
  reg [2:0] \$28 ;
  reg [8:0] \$29 ;
  wire \$3 ;
  reg [5:0] \$30 ;
  reg [2:0] \$31 ;
  wire \$4 ;
  wire \$5 ;
  wire \$6 ;
  wire \$7 ;
  wire \$8 ;
  wire [4:0] \$9 ;
  wire \$signal ;
  reg \$signal$1  = 1'h0;
  wire \$signal$11 ;
  wire \$signal$4 ;
  wire \$signal$7 ;
  wire [-1:0] core;
  reg ending = 1'h0;
  reg [5:0] instruction = 6'h00;
  wire leaves;
  reg [1:0] \wait  = 2'h3;
  assign \$1  = | count;
  assign \$2  = \begin  & \$1 ;
  assign \$signal  = \$signal$1  | \$2 ;
  assign \$3  = ~ ready;
  assign \$4  = valid & \$3 ;
  assign \$5  = ~ \$signal$4 ;
  assign \$6  = \$signal  & \$5 ;
  assign \$7  = ! \wait ;
  assign \$signal$7  = \$6  & \$7 ;
  assign \$8  = instruction == 6'h3f;
  assign leaves = \$signal$7  & \$8 ;
  assign \$9  = count - 1'h1;
  assign \$10  = \sequence  == \$9 ;
  assign \$signal$11  = leaves & \$10 ;
  assign \$11  = ~ \$signal$4 ;
  assign \$12  = ending & \$11 ;
  assign \$13  = ! count;
  assign \$14  = \begin  & \$13 ;
  assign done = \$12  | \$14 ;
  assign \$15  = ~ \$signal$4 ;
  assign \$16  = ~ \$signal$4 ;
  assign \$17  = ! \wait ;
  assign \$18  = \wait  - 1'h1;
  assign \$19  = \$17  ? 3'h3 : \$18 ;
  assign \$21  = address + 1'h1;
  assign \$22  = instruction + 1'h1;
  assign \$23  = \sequence  + 1'h1;
  always @(posedge clk)
    valid <= \$24 ;
  always @(posedge clk)
    ending <= \$25 ;
  always @(posedge clk)
    \$signal$1  <= \$26 ;
  always @(posedge clk)
    \wait  <= \$27 ;
  always @(posedge clk)
    sent <= \$28 ;
  always @(posedge clk)
    address <= \$29 ;
  always @(posedge clk)
    instruction <= \$30 ;
  always @(posedge clk)
    \sequence  <= \$31 ;
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$24  = valid;
    if (\$15 ) begin
      \$24  = 1'h0;
    end
    if (\$signal$7 ) begin
      \$24  = \$20 ;
    end
    if (rst) begin
      \$24  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$25  = ending;
    if (\$15 ) begin
      \$25  = 1'h0;
    end
    if (\$signal$11 ) begin
      \$25  = 1'h1;
    end
    if (rst) begin
      \$25  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$26  = \$signal$1 ;
    if (\$signal ) begin
      \$26  = 1'h1;
    end
    if (\$signal$11 ) begin
      \$26  = 1'h0;
    end
    if (rst) begin
      \$26  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$27  = \wait ;
    if (\$signal ) begin
      if (\$16 ) begin
        \$27  = \$19 [1:0];
      end
    end
    if (rst) begin
      \$27  = 2'h3;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$28  = sent;
    if (\$signal$7 ) begin
      \$28  = \sequence ;
    end
    if (rst) begin
      \$28  = 3'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$29  = address;
    if (\$signal$7 ) begin
      \$29  = \$21 [8:0];
    end
    if (\$signal$11 ) begin
      \$29  = 9'h000;
    end
    if (rst) begin
      \$29  = 9'h000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$30  = instruction;
    if (\$signal$7 ) begin
      \$30  = \$22 [5:0];
    end
    if (leaves) begin
      \$30  = 6'h00;
    end
    if (rst) begin
      \$30  = 6'h00;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$31  = \sequence ;
    if (leaves) begin
      \$31  = \$23 [2:0];
    end
    if (\$signal$11 ) begin
      \$31  = 3'h0;
    end
    if (rst) begin
      \$31  = 3'h0;
    end
  end
  assign fetch = \$signal$7 ;
  assign \$signal$4  = \$4 ;
  assign \$20  = computes;
endmodule

module \top.core_3 (ready, clk, rst, count, computes, fetch, done, valid, sent, address, \sequence , \begin );
  reg \$auto$verilog_backend.cc:2505:dump_module$5  = 0;
  input ready;
  wire ready;
  input clk;
  wire clk;
  input rst;
  wire rst;
  input [3:0] count;
  wire [3:0] count;
  input computes;
  wire computes;
  output fetch;
  wire fetch;
  output done;
  wire done;
  output valid;
  reg valid = 1'h0;
  output [2:0] sent;
  reg [2:0] sent = 3'h0;
  output [8:0] address;
  reg [8:0] address = 9'h000;
  output [2:0] \sequence ;
  reg [2:0] \sequence  = 3'h0;
  input \begin ;
  wire \begin ;
  wire \$1 ;
  wire \$10 ;
  wire \$11 ;
  wire \$12 ;
  wire \$13 ;
  wire \$14 ;
  wire \$15 ;
  wire \$16 ;
  wire \$17 ;
  wire [2:0] \$18 ;
  wire [2:0] \$19 ;
  wire \$2 ;
  wire \$20 ;
  wire [9:0] \$21 ;
  wire [6:0] \$22 ;
  wire [3:0] \$23 ;
  reg \$24 ;
  reg \$25 ;
  reg \$26 ;
  reg [1:0] \$27 ;
  reg [2:0] \$28 ;
  reg [8:0] \$29 ;
  wire \$3 ;
  reg [5:0] \$30 ;
  reg [2:0] \$31 ;
  wire \$4 ;
  wire \$5 ;
  wire \$6 ;
  wire \$7 ;
  wire \$8 ;
  wire [4:0] \$9 ;
  wire \$signal ;
  reg \$signal$1  = 1'h0;
  wire \$signal$11 ;
  wire \$signal$4 ;
  wire \$signal$7 ;
  wire [-1:0] core;
  reg ending = 1'h0;
  reg [5:0] instruction = 6'h00;
  wire leaves;
  reg [1:0] \wait  = 2'h3;
  assign \$1  = | count;
  assign \$2  = \begin  & \$1 ;
  assign \$signal  = \$signal$1  | \$2 ;
  assign \$3  = ~ ready;
  assign \$4  = valid & \$3 ;
  assign \$5  = ~ \$signal$4 ;
  assign \$6  = \$signal  & \$5 ;
  assign \$7  = ! \wait ;
  assign \$signal$7  = \$6  & \$7 ;
  assign \$8  = instruction == 6'h3f;
  assign leaves = \$signal$7  & \$8 ;
  assign \$9  = count - 1'h1;
  assign \$10  = \sequence  == \$9 ;
  assign \$signal$11  = leaves & \$10 ;
  assign \$11  = ~ \$signal$4 ;
  assign \$12  = ending & \$11 ;
  assign \$13  = ! count;
  assign \$14  = \begin  & \$13 ;
  assign done = \$12  | \$14 ;
  assign \$15  = ~ \$signal$4 ;
  assign \$16  = ~ \$signal$4 ;
  assign \$17  = ! \wait ;
  assign \$18  = \wait  - 1'h1;
  assign \$19  = \$17  ? 3'h3 : \$18 ;
  assign \$21  = address + 1'h1;
  assign \$22  = instruction + 1'h1;
  assign \$23  = \sequence  + 1'h1;
  always @(posedge clk)
    valid <= \$24 ;
  always @(posedge clk)
    ending <= \$25 ;
  always @(posedge clk)
    \$signal$1  <= \$26 ;
  always @(posedge clk)
    \wait  <= \$27 ;
  always @(posedge clk)
    sent <= \$28 ;
  always @(posedge clk)
    address <= \$29 ;
  always @(posedge clk)
    instruction <= \$30 ;
  always @(posedge clk)
    \sequence  <= \$31 ;
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$5 ) begin end
    \$24  = valid;
    if (\$15 ) begin
      \$24  = 1'h0;
    end
    if (\$signal$7 ) begin
      \$24  = \$20 ;
    end
    if (rst) begin
      \$24  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$5 ) begin end
    \$25  = ending;
    if (\$15 ) begin
      \$25  = 1'h0;
    end
    if (\$signal$11 ) begin
      \$25  = 1'h1;
    end
    if (rst) begin
      \$25  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$5 ) begin end
    \$26  = \$signal$1 ;
    if (\$signal ) begin
      \$26  = 1'h1;
    end
    if (\$signal$11 ) begin
      \$26  = 1'h0;
    end
    if (rst) begin
      \$26  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$5 ) begin end
    \$27  = \wait ;
    if (\$signal ) begin
      if (\$16 ) begin
        \$27  = \$19 [1:0];
      end
    end
    if (rst) begin
      \$27  = 2'h3;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$5 ) begin end
    \$28  = sent;
    if (\$signal$7 ) begin
      \$28  = \sequence ;
    end
    if (rst) begin
      \$28  = 3'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$5 ) begin end
    \$29  = address;
    if (\$signal$7 ) begin
      \$29  = \$21 [8:0];
    end
    if (\$signal$11 ) begin
      \$29  = 9'h000;
    end
    if (rst) begin
      \$29  = 9'h000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$5 ) begin end
    \$30  = instruction;
    if (\$signal$7 ) begin
      \$30  = \$22 [5:0];
    end
    if (leaves) begin
      \$30  = 6'h00;
    end
    if (rst) begin
      \$30  = 6'h00;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$5 ) begin end
    \$31  = \sequence ;
    if (leaves) begin
      \$31  = \$23 [2:0];
    end
    if (\$signal$11 ) begin
      \$31  = 3'h0;
    end
    if (rst) begin
      \$31  = 3'h0;
    end
  end
  assign fetch = \$signal$7 ;
  assign \$signal$4  = \$4 ;
  assign \$20  = computes;
endmodule
